"""Two captures, compared: sites are paired, then calls, then leaves. No JAX here.

=================  =========================================================================
`layouts`          one array stacked, joined or copied: digests and shapes that say so
`bits`             how far two arrays are apart
`causes`           why they are, as far as the numbers tell
`pairing`          which site of one program is which of the other
`judging`          the verdict of each site
`verdicts`         what there is to say
=================  =========================================================================
"""
