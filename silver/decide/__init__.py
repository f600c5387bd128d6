"""Decides the class of each record of a load: `kernel.Decision.decide`. `silver.suspects` then classifies the suspects."""
