const UNITS: Record<string, number> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/**
 * Returns the milliseconds of a duration such as `90d` (units: s, m, h, d); NaN for any other text.
 */
export function parseDuration(text: string): number {
  const [, amount, unit = ''] = /^(\d+)([smhd])$/.exec(text) ?? []
  return Number(amount) * (UNITS[unit] ?? Number.NaN)
}
