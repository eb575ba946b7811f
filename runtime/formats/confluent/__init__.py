"""Messages of Confluent's serializers: the registry of their schemas, and what stands before each of them."""
