// Draws from every random generator of Node, once for each line that comes in.
const crypto = require("crypto");

function draw() {
  return {
    randomBytes: crypto.randomBytes(8).toString("hex"),
    randomUUID: crypto.randomUUID(),
    getRandomValues: crypto.webcrypto.getRandomValues(new Uint8Array(8)).join(),
    mathRandom: Math.random(),
  };
}

draw();
console.log(JSON.stringify("ready"));
require("readline")
  .createInterface({ input: process.stdin })
  .on("line", () => console.log(JSON.stringify(draw())));
