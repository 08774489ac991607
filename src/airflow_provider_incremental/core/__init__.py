"""The domain: what a watermark, a batch, a source, a store and a consumer are. Standard library only.

How the words fit: a *source* is read above a *watermark* (a *cursor* with a version) and yields a slice, which is
committed to a *store* as a *batch* together with the move of the watermark. Batches are *announced* to Airflow,
*confirmed* when Airflow has stored the event, and *claimed* and *acknowledged* by *consumers*. That order stands in
:mod:`airflow_provider_incremental.core.order`, and nowhere else.
"""
