"""Who a caller is: one module for each way to find out, and one table of all types."""
