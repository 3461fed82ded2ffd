"""The kit: what every engine shares, below the app types. Pure, but for certificates, which are made in memory."""
