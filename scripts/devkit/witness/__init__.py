"""A witness on the wire: sees what retentiond and the brokers say to each other, and proves each
DeleteRecords from that alone. It shares no code with retentiond or with Kafka's clients; `kio`,
made from Kafka's own message definitions, decodes.
"""
