"""What gets said: trees drawn at random, of parts that go together."""
