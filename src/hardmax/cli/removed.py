"""Commands and options that were removed, with what replaces them. Shown for one release."""

REMOVED = {
    "topics": (
        "`hardmax topics` was removed. Embed the texts and cluster the vectors: `hardmax.transformers.embed` and "
        "`HardmaxClustering(metric='cosine')`. docs/how-to/cluster-embeddings.md shows how, with words per cluster."
    ),
}
