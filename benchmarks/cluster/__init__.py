"""Full jobs through instances that share a Redis, beside one that keeps everything in memory."""
