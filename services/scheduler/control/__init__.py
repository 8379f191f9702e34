"""What the scheduler does all day: `leadership` decides whether it may, `controller` what happens next.

`world` is the picture of jobs and cluster that both work from, `gangs` the engine as the controller sees it, `journal`
the record that it writes, `starter` and `inventory` what the engine is asked for.
"""
