import { putLoad } from './load-maker.ts'
import { median, type Row, spreadOf } from './row.ts'
import type { Scenario } from './scenario.ts'

const CONNECTIONS = 32
/** Seconds of a load that is not counted, for the compilers of both sides. */
const WARM_UP = 1

interface Sample {
  rate: number
  p50: number
  p99: number
  cpu: number
  busy: number
}

/** How scenarios are measured. */
interface Measurement {
  rounds: number
  /** Whole ones, of each measurement. */
  seconds: number
  /** Told when an answer was not what it should be, or what should have gone on beside did not. */
  onFault(text: string): void
  signal: AbortSignal
}

/** Measures scenarios in turn, all of them once in each round, so that whatever else the machine does meets all. */
export async function measure(scenarios: Scenario[], measurement: Measurement): Promise<Row[]> {
  const samples = new Map(scenarios.map(({ name }): [string, Sample[]] => [name, []]))
  const { seconds, onFault, signal } = measurement
  for (const scenario of scenarios) await once(scenario, { seconds: WARM_UP, onFault, signal })
  for (let round = 0; round < measurement.rounds; round++)
    for (const scenario of scenarios)
      samples.get(scenario.name)?.push(await once(scenario, { seconds, onFault, signal }))

  return scenarios.map(({ name, against }) => {
    const mine = samples.get(name) ?? []
    const middle = (of: keyof Sample, those = mine) => median(those.map((sample) => sample[of]))
    const theirs = samples.get(against?.name ?? '')
    return {
      name,
      value: middle('rate'),
      unit: 'requests/s',
      spread: spreadOf(mine.map(({ rate }) => rate)),
      p50: middle('p50'),
      p99: middle('p99'),
      cpu: middle('cpu'),
      busy: middle('busy'),
      ...(against &&
        theirs && {
          against: against.name,
          ratio: middle('rate') / middle('rate', theirs),
          cpuRatio: middle('cpu', theirs) / middle('cpu'),
          ...(against.aim && { aim: against.aim }),
        }),
    }
  })
}

async function once(
  scenario: Scenario,
  { seconds, onFault, signal }: Omit<Measurement, 'rounds'>,
): Promise<Sample> {
  signal.throwIfAborted()
  const { name, server, requests, connections = CONNECTIONS } = scenario
  const end = await scenario.beside?.()
  const before = server.cpu()
  const { rate, p50, p99, statuses, errors } = await putLoad({
    url: server.url,
    connections,
    seconds,
    requests,
  })
  const cpu = server.cpu() - before
  const fault = await end?.()
  if (fault) onFault(`${name}: ${fault}`)
  const unexpected = Object.keys(statuses).filter((status) => !scenario.statuses.includes(Number(status)))
  if (errors > 0 || rate === 0 || unexpected.length > 0)
    onFault(`${name}: ${errors} errors, answers ${JSON.stringify(statuses)}`)
  return { rate, p50, p99, cpu: cpu / (rate * seconds), busy: cpu / (seconds * 1e6) }
}
