"""Word alignment from the cross-attention of translation models."""
