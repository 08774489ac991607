"""The store over HTTP: the operations with their JSON, known to client and server alike, and the client."""
