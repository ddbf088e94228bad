import { putLoad } from './load-generator.ts'
import { median, type Row, spreadOf } from './row.ts'
import { comparisonsOf, type Scenario } from './scenario.ts'

const CONNECTIONS = 32
/** Seconds of load before the measurement, for the JIT compilers of both sides. */
const WARM_UP = 1

interface Sample {
  rate: number
  p50: number
  p99: number
  cpu: number
  busy: number
}

/** How scenarios are measured. */
export interface Measurement {
  rounds: number
  /** Duration of each measurement, a whole number. */
  seconds: number
  /** Called with an error message for unexpected answers and failed concurrent activities. */
  onError(text: string): void
  signal: AbortSignal
}

/** Measures all scenarios once per round, so that other load on the machine affects all of them. */
export async function measure(scenarios: Scenario[], measurement: Measurement): Promise<Row[]> {
  const samples = new Map(scenarios.map(({ name }): [string, Sample[]] => [name, []]))
  const { seconds, onError, signal } = measurement
  for (const scenario of scenarios) await measureOnce(scenario, { seconds: WARM_UP, onError, signal })
  for (let round = 0; round < measurement.rounds; round++)
    for (const scenario of scenarios)
      samples.get(scenario.name)?.push(await measureOnce(scenario, { seconds, onError, signal }))

  return scenarios.flatMap(({ name, against = [] }) => {
    const mine = samples.get(name) ?? []
    const medianOf = (key: keyof Sample, samples = mine) => median(samples.map((sample) => sample[key]))
    const row: Row = {
      name,
      value: medianOf('rate'),
      unit: 'requests/s',
      spread: spreadOf(mine.map(({ rate }) => rate)),
      p50: medianOf('p50'),
      p99: medianOf('p99'),
      cpu: medianOf('cpu'),
      busy: medianOf('busy'),
    }
    const compared = comparisonsOf({ against }).flatMap(({ name: other, ...rest }): Row[] => {
      const theirs = samples.get(other)
      const ratio = medianOf('rate') / medianOf('rate', theirs)
      const cpuRatio = medianOf('cpu', theirs) / medianOf('cpu')
      return theirs ? [{ ...row, against: other, ratio, cpuRatio, ...rest }] : []
    })
    return compared.length > 0 ? compared : [row]
  })
}

export async function measureOnce(
  scenario: Scenario,
  { seconds, onError, signal }: Omit<Measurement, 'rounds'>,
): Promise<Sample> {
  signal.throwIfAborted()
  const { name, server, requests, connections = CONNECTIONS } = scenario
  const end = await scenario.meanwhile?.()
  const before = server.cpu()
  const { rate, p50, p99, statuses, errors } = await putLoad({
    url: server.url,
    connections,
    seconds,
    requests,
  })
  const cpu = server.cpu() - before
  const failure = await end?.()
  if (failure) onError(`${name}: ${failure}`)
  const unexpected = Object.keys(statuses).filter((status) => !scenario.statuses.includes(Number(status)))
  if (errors > 0 || rate === 0 || unexpected.length > 0)
    onError(`${name}: ${errors} errors, answers ${JSON.stringify(statuses)}`)
  // On a busy machine the load generator may take longer than it should.
  const answers = Object.values(statuses).reduce((sum, count) => sum + count, 0)
  return { rate, p50, p99, cpu: cpu / answers, busy: cpu / (seconds * 1e6) }
}
