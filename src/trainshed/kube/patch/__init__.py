"""Changes of a document: JSON Patch, merge and strategic merge patch, server-side apply and its managed fields."""
