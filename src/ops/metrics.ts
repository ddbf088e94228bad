import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client'
import { schemas } from '../../generated/schemas.ts'
import { version } from '../runtime.ts'
import type { PoolFigures } from '../store/engine.ts'

/** What is measured when somebody asks, rather than along the way. */
export interface MetricsSources {
  /** Addresses whose failure budget is spent now. */
  blockedAddresses(): Promise<number>
  /** git processes that look commits up. */
  lookupProcesses(): number
  /** Connections to the database; null where there is no pool. */
  databasePool(): PoolFigures | null
}

/** Takes the status code of an answer and how long it took, in milliseconds. */
type Observe = (status: number, duration: number) => void

/** Figures for Prometheus. */
export interface Metrics {
  /** What counts the requests of one operation. To be asked for once, not at each request. */
  operation(name: string): Observe
  statusReported(state: string): void
  authenticationFailed(): void
  addressBlocked(): void
  requestShed(): void
  /** All figures in Prometheus's text format, and its media type. */
  render(): Promise<{ type: string; text: string }>
}

/** Seconds. Most answers take about one millisecond; a push takes minutes. */
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
    help: 'Requests by operation and status code: how many, and seconds until they were answered.',
    labelNames: ['operation', 'status'],
    buckets: BUCKETS,
    registers,
  })
  const reported = new Counter({
    name: 'commit_status_reports_total',
    help: 'Statuses reported, by state.',
    labelNames: ['state'],
    registers,
  })
  for (const state of schemas.State.enum) reported.inc({ state }, 0)
  const failed = new Counter({
    name: 'commit_status_authentication_failures_total',
    help: 'Failed authentication attempts that were counted.',
    registers,
  })
  const blocked = new Counter({
    name: 'commit_status_addresses_blocked_total',
    help: 'How often an address spent its failure budget.',
    registers,
  })
  const shed = new Counter({
    name: 'commit_status_requests_shed_total',
    help: 'Requests answered 503 because the server was overloaded.',
    registers,
  })
  new Gauge({
    name: 'commit_status_blocked_addresses',
    help: 'Addresses whose failure budget is spent, in the whole deployment.',
    registers,
    async collect() {
      this.set(await sources.blockedAddresses())
    },
  })
  new Gauge({
    name: 'commit_status_lookup_processes',
    help: 'git processes that look commits up.',
    registers,
    collect() {
      this.set(sources.lookupProcesses())
    },
  })
  if (sources.databasePool() !== null) addPoolGauge(registry, sources)

  return {
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

function addPoolGauge(registry: Registry, sources: MetricsSources): void {
  new Gauge({
    name: 'commit_status_database_connections',
    help: 'Connections to the database: open, idle, and requests that wait for one.',
    labelNames: ['state'],
    registers: [registry],
    collect() {
      for (const [state, count] of Object.entries(sources.databasePool() ?? {})) this.set({ state }, count)
    },
  })
}
