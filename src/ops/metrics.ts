import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client'
import { schemas } from '../../generated/schemas.ts'
import { version } from '../runtime.ts'
import type { AuditLine } from '../store/audit/audit.ts'
import type { PoolFigures } from '../store/engine.ts'
import type { AddGauge } from '../util/gauge.ts'

/** Values that are read when metrics are requested. */
export interface MetricsSources {
  /** Addresses whose failure budget is currently spent. */
  blockedAddresses(): Promise<number>
  /** Running git processes that look up commits. */
  lookupProcesses(): number
  /** The event of the latest complete backup. */
  latestBackup(): Promise<AuditLine | undefined>
  pingDatabase(): Promise<void>
  /** Database connections; null without a pool. */
  databasePool(): PoolFigures | null
}

/** Records the status code and the duration in milliseconds of an answer. */
type Observe = (status: number, duration: number) => void

/** Metrics for Prometheus. */
export interface Metrics {
  gauge: AddGauge
  /** Returns the function that records requests of an operation. Call it once per operation, not per request. */
  operation(name: string): Observe
  statusReported(state: string): void
  authenticationFailed(): void
  addressBlocked(): void
  requestShed(): void
  /** Renders all metrics in Prometheus's text format. */
  render(): Promise<{ type: string; text: string }>
}

/** Histogram buckets in seconds. Most answers take about a millisecond, a push may take minutes. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60]

export function createMetrics(sources: MetricsSources): Metrics {
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
  const counter = <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
    new Counter({ name, help, labelNames, registers })
  const gauge: AddGauge = (name, help, read, labelNames = []) => {
    new Gauge({
      name,
      help,
      labelNames,
      registers,
      async collect() {
        this.reset()
        try {
          for (const [labels, value] of await read()) this.set(labels, value)
        } catch {
          // The other metrics say why.
          if (labelNames.length === 0) this.set(Number.NaN)
        }
      },
    })
  }
  const reported = counter('commit_status_reports_total', 'Statuses reported, by state.', ['state'])
  for (const state of schemas.State.enum) reported.inc({ state }, 0)
  const failed = counter(
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
  gauge(
    'commit_status_blocked_addresses',
    'Addresses whose failure budget is spent, across the deployment.',
    async () => [[{}, await sources.blockedAddresses()]],
  )
  gauge('commit_status_lookup_processes', 'Running git processes that look up commits.', () => [
    [{}, sources.lookupProcesses()],
  ])
  gauge(
    'commit_status_backup_timestamp_seconds',
    'Time of the latest complete backup, 0 without one.',
    async () => [[{}, Date.parse((await sources.latestBackup())?.time ?? '1970') / 1000]],
  )
  const backup = (name: string) => async () =>
    [[{}, Number((await sources.latestBackup())?.details[name] ?? 0)]] as const
  gauge('commit_status_backup_size_bytes', 'Size of the folder of backups after it.', backup('bytes'))
  gauge('commit_status_backup_duration_seconds', 'Duration of the backup.', backup('seconds'))
  if (sources.databasePool() !== null)
    gauge(
      'commit_status_database_connections',
      'Database connections by state: open and idle ones, and requests waiting for one.',
      () => Object.entries<number>({ ...sources.databasePool() }).map(([state, count]) => [{ state }, count]),
      ['state'],
    )
  gauge(
    'commit_status_database_latency_seconds',
    'Time that the database took to answer while these metrics were read; NaN if it did not.',
    async () => {
      const start = performance.now()
      await sources.pingDatabase()
      return [[{}, (performance.now() - start) / 1000]]
    },
  )

  return {
    gauge,
    operation(name) {
      const byStatus = new Map<number, { observe(seconds: number): void }>()
      return (status, duration) => {
        let series = byStatus.get(status)
        if (series === undefined) {
          series = requests.labels(name, String(status))
          byStatus.set(status, series)
        }
        series.observe(duration / 1000)
      }
    },
    statusReported: (state) => reported.inc({ state }),
    authenticationFailed: () => failed.inc(),
    addressBlocked: () => blocked.inc(),
    requestShed: () => shed.inc(),
    render: async () => ({ type: registry.contentType, text: await registry.metrics() }),
  }
}
