import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client'
import { schemas } from '../../generated/schemas.ts'
import { REFUSAL_KINDS, type RefusalKind } from '../domain/ref-updates.ts'
import type { CommitLookup } from '../git/objects/commit-lookup.ts'
import { version } from '../runtime.ts'
import type { FailureLimits } from '../store/failures/failures.ts'
import type { Store } from '../store/store.ts'
import { isSystemError, Unavailable } from '../util/expected-errors.ts'
import type { AddGauge } from '../util/gauge.ts'

export type Metrics = ReturnType<typeof createMetrics>

/** Histogram buckets in seconds. Most answers take about a millisecond, a push may take minutes. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60]
/** Histogram buckets in calls, up to the largest batch. */
const BATCH_BUCKETS = [1, 2, 4, 8, 16, 32, 64]

/**
 * Creates the metrics for Prometheus. Values of gauges are read when metrics are requested.
 *
 * @param onLeftOut receives the system's error for a gauge that cannot be read, once until it can be
 */
export function createMetrics(
  store: Pick<Store, 'auditLog' | 'failures' | 'observeBatches' | 'ping' | 'pool'>,
  lookup: CommitLookup,
  limits: FailureLimits,
  onLeftOut: (metric: string, error: unknown) => void,
) {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  new Gauge({
    name: 'commit_status_build_info',
    help: 'Always 1. The label is the version of the server.',
    labelNames: ['version'],
    registers,
  }).set({ version }, 1)

  const requests = new Histogram({
    name: 'commit_status_request_duration_seconds',
    help: 'Duration of requests in seconds, by operation and status code.',
    labelNames: ['operation', 'status'],
    buckets: BUCKETS,
    registers,
  })
  // What alerts watch exists from the start: a rate sees no increase in the first value of a
  // series.
  requests.zero({ operation: 'reportStatus', status: '201' })
  const counter = <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
    new Counter({ name, help, labelNames, registers })
  const gauge: AddGauge = (name, help, read, labelNames = []) => {
    let isLeftOut = false
    new Gauge({
      name,
      help,
      labelNames,
      registers,
      async collect() {
        const samples = await (async () => read())().catch((error: unknown) => {
          const isOfDisk = isSystemError(error)
          if (!isOfDisk && !(error instanceof Unavailable)) throw error
          // The answers to other requests say that the database is unavailable.
          if (isOfDisk && !isLeftOut) onLeftOut(name, error)
          return null
        })
        isLeftOut = samples === null
        this.reset()
        // Without labels, it would be 0 after that.
        if (labelNames.length === 0) this.remove()
        for (const [labels, value] of samples ?? []) this.set(labels, value)
      },
    })
  }
  // The first gauge, so that it is read before the others ask the database.
  if (store.pool() !== null) {
    gauge(
      'commit_status_database_connections',
      'Database connections by state: open and idle ones, and requests waiting for one.',
      () => Object.entries<number>({ ...store.pool() }).map(([state, count]) => [{ state }, count]),
      ['state'],
    )
    const calls = new Histogram({
      name: 'commit_status_database_batch_calls',
      help: 'Calls that shared one statement, such as the reports of several requests.',
      buckets: BATCH_BUCKETS,
      registers,
    })
    const waited = new Histogram({
      name: 'commit_status_database_batch_wait_seconds',
      help: 'Time that a call waited until its statement was sent.',
      buckets: BUCKETS,
      registers,
    })
    store.observeBatches((waits) => {
      calls.observe(waits.length)
      for (const wait of waits) waited.observe(wait / 1000)
    })
  }
  const reports = counter('commit_status_reports_total', 'Statuses reported, by state.', ['state'])
  for (const state of schemas.State.enum) reports.inc({ state }, 0)
  const refusedPushes = counter(
    'commit_status_refused_pushes_total',
    'Pushes of which refs were refused, counted once for each kind of reason.',
    ['reason'],
  )
  for (const reason of REFUSAL_KINDS) refusedPushes.inc({ reason }, 0)
  const failures = counter(
    'commit_status_authentication_failures_total',
    'Counted failed authentication attempts.',
  )
  const blocked = counter(
    'commit_status_addresses_blocked_total',
    'Times that an address spent its failure budget.',
  )
  const shed = counter(
    'commit_status_requests_shed_total',
    'Requests answered 503 because the server was overloaded.',
  )
  const serverErrors = counter(
    'commit_status_server_errors_total',
    'Requests answered with a status code of 500 or more, except 501.',
  )
  gauge(
    'commit_status_blocked_addresses',
    'Addresses whose failure budget is spent, across the deployment.',
    async () => [[{}, await store.failures.countBlocked(limits)]],
  )
  gauge('commit_status_lookup_processes', 'Running git processes that look up commits.', () => [
    [{}, lookup.size],
  ])
  const complete = () => store.auditLog.latestBackup('backup.completed')
  gauge(
    'commit_status_backup_timestamp_seconds',
    'Time of the latest complete backup, 0 without one.',
    async () => [[{}, Date.parse((await complete())?.time ?? '1970') / 1000]],
  )
  const backup = (name: string) => async () => [[{}, Number((await complete())?.details[name] ?? 0)]] as const
  gauge('commit_status_backup_size_bytes', 'Size of the folder of backups after it.', backup('bytes'))
  gauge('commit_status_backup_duration_seconds', 'Duration of the backup.', backup('seconds'))
  gauge(
    'commit_status_backup_incomplete',
    'Whether the latest backup failed, or repositories could not be read: 1 or 0.',
    async () => [[{}, Number((await store.auditLog.latestBackup())?.action === 'backup.incomplete')]],
  )
  gauge(
    'commit_status_database_latency_seconds',
    'Time that the database took to answer while these metrics were read.',
    async () => {
      const start = performance.now()
      await store.ping()
      return [[{}, (performance.now() - start) / 1000]]
    },
  )

  return {
    gauge,
    /**
     * Returns the function that records the status code and the duration in milliseconds of an
     * answer. Call it once per operation, not per request.
     */
    operation(name: string) {
      const byStatus = new Map<number, { observe(seconds: number): void }>()
      return (status: number, duration: number): void => {
        let series = byStatus.get(status)
        if (series === undefined) {
          series = requests.labels(name, String(status))
          byStatus.set(status, series)
        }
        series.observe(duration / 1000)
        // 501 says that Git LFS is not supported.
        if (status >= 500 && status !== 501) serverErrors.inc()
      }
    },
    statusReported: (state: string) => reports.inc({ state }),
    pushRefused: (reason: RefusalKind) => refusedPushes.inc({ reason }),
    authenticationFailed: () => failures.inc(),
    addressBlocked: () => blocked.inc(),
    requestShed: () => shed.inc(),
    /** Renders all metrics in Prometheus's text format. */
    render: async () => ({ type: registry.contentType, text: await registry.metrics() }),
  }
}
