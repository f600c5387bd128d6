"""The jobs of `spark-submit`: a file for each stage, for the whole pipeline and for maintenance."""
