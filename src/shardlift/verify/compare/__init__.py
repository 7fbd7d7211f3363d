"""Comparison of two captures: sites are paired, then calls, then leaves. No JAX here.

=======================  ==================================================================
`captured_run`           a capture and its arrays
`pairs`                  which sites, leaves and collectives of two programs belong together
`same_name_sites`        functions that have another number of sites in each program
`array_distance`         how far two arrays are apart
`leaf_comparison`        whether two leaves can be compared, and how they differ
`collective_results`     whether the same operations get the same results of collectives
`causes`                 likely causes of a difference between two arrays
`key_and_index_checks`   changed keys, indices and collectives, which explain differences
`site_pair`              one site of each program, and what is found out about them
`site_comparison`        compares the calls of one pair of sites, and their outputs
`collective_comparison`  compares what their collectives exchange
`explanation`            the causes of a site, from all its findings
`judge`                  the verdicts of all sites
`processes`              merges the verdicts of several processes
`verdicts`               the records of the result
=======================  ==================================================================
"""
