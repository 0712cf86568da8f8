"""Operations: read, let `core` decide, write; each a plain function of one transaction. Written once for both stores."""
