"""LINE: the histories that its apps save, and the webhooks of its Messaging API."""
