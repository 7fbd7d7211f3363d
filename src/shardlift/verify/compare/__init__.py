"""Comparison of two captures: sites are paired, then calls, then leaves. No JAX here.

======================  ==================================================================
`recorded`              a capture and its arrays
`pairs`                 which sites, leaves and collectives of two programs belong together
`same_name_sites`       functions that have another number of sites in each program
`bits`, `leaves`        the distance between two arrays, and whether they can be compared
`causes`                likely causes of a difference between two arrays
`key_and_index_checks`  changed keys, indices and collectives, which explain differences
`site_comparison`       compares one pair of sites
`explanation`           the causes of a site, from all its findings
`judge`                 the verdicts of all sites
`processes`             merges the verdicts of several processes
`verdicts`              the records of the result
======================  ==================================================================
"""
