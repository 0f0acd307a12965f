-- Averages of days. The ends of intervals are averaged as well: errors of slots are shared, so no root is taken.
-- The same users are in many slots, so their numbers are averaged and not summed.
{{ config(materialized='table') }}
select
    day,
    value,
    avg(share) as share,
    avg(lower) as lower,
    avg(upper) as upper,
    avg(users) as users,
    count(*) as slots,
    max(epsilon_spent) as epsilon_spent_at_most,
    arg_max(certificate, slot) as last_certificate
from {{ source('dpi', 'page_shares') }}
group by day, value
