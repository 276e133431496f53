"""OpenAPI schemas: built-in and of CRDs; decoding, structural validation, defaults, CEL, rules of metadata."""
