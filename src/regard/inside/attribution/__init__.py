"""Attribution: how much each word, or patch of an image, contributes to a prediction."""
