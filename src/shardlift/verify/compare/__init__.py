"""Two captures, compared: sites are paired, then calls, then leaves. No JAX here.

=================  =========================================================================
`layouts`          one array stacked, joined or copied: digests and shapes that say so
`bits`             how far two arrays are apart
`causes`           why they are, as far as the numbers tell
`pairs`            which site of one program is which of the other
`key_and_index_checks` keys, indices and collectives that say why numbers differ
`judge`            the verdict of each site
`processes`        the verdicts of many processes, as one
`verdicts`         what there is to say
=================  =========================================================================
"""
