"""TensorBoard servers of jobs: started on demand, shut in, and reached through the API alone."""
