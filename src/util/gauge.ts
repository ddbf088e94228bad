/** A value and its labels. */
type Sample = readonly [labels: Readonly<Record<string, string>>, value: number]

/** Adds a metric whose values are read when metrics are requested. */
export type AddGauge = (
  name: string,
  help: string,
  read: () => readonly Sample[] | Promise<readonly Sample[]>,
  labelNames?: string[],
) => void
