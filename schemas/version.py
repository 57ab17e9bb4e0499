"""The version of this package; stored in manifests."""

VERSION = "0.1.0"
