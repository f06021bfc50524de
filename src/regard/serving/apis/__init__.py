"""APIs of the server: the routes of one interface, with its shape of errors."""
