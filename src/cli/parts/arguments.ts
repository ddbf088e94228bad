import { resolve } from 'node:path'
import { PERMISSIONS, type Permission } from '../../domain/permissions.ts'
import type { Repository } from '../../store/repositories/repositories.ts'
import type { Store } from '../../store/store.ts'
import { parseDuration } from '../../util/duration.ts'
import { ExpectedError } from '../../util/expected-errors.ts'

const DATE = /^\d{4}-\d{2}-\d{2}$/
const DATE_TIME = /^(\d{4}-\d{2}-\d{2})[Tt ]\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|z|[+-]\d{2}:?\d{2})$/

/** The command line is invalid: exit code 2. */
export class UsageError extends ExpectedError {
  override readonly name = 'UsageError'
}

/**
 * Returns the absolute path of an argument. npm runs scripts in the project's folder, and says
 * where the caller was.
 */
export function callerPath(path: string): string {
  if (path === '-') throw new UsageError('"-" is not a path (expected for example "./statuses.backup")')
  return resolve(process.env.INIT_CWD ?? process.cwd(), path)
}

/** Values of arguments and fields that give or remove access. */
export const ACCESS = [...PERMISSIONS, 'none'] as const

/** The same in words, for messages. */
export const ACCESS_RULE = 'read, write, admin or none'

/** Returns a permission, null for `none`. @param what it is for @throws UsageError */
export function accessOf(text: string, what: string): Permission | null {
  const access = ACCESS.find((known) => known === text)
  if (access === undefined)
    throw new UsageError(`${what}: "${text}" is not an access (expected ${ACCESS_RULE})`)
  return access === 'none' ? null : access
}

/** Splits OWNER/NAME. @throws UsageError for anything else */
export function splitFullName(fullName: string): { owner: string; name: string } {
  const [owner, name, ...rest] = fullName.split('/')
  if (!owner || !name || rest.length > 0)
    throw new UsageError(`"${fullName}" is not the name of a repository (expected OWNER/NAME)`)
  return { owner, name }
}

/** Returns the repository OWNER/NAME. @throws UsageError; Refusal if there is none */
export async function findRepository({ repositories }: Store, fullName: string): Promise<Repository> {
  const { owner, name } = splitFullName(fullName)
  return repositories.get(owner, name)
}

/**
 * Returns when a token expires. `text` is the value of `--expires`: a duration such as `90d`, a
 * date (the token expires at 00:00 UTC), or a date-time with `Z` or an offset. Times are in
 * milliseconds since the epoch.
 *
 * @throws UsageError for anything else, and for a moment that has passed
 */
export function parseExpiry(text: string, now: number): number {
  const moment = parseMoment(text, now)
  if (!Number.isSafeInteger(moment)) {
    throw new UsageError(
      `--expires: "${text}" is not a time (expected a duration such as 90d, a date, or a date-time with Z or an offset)`,
    )
  }
  if (moment <= now)
    throw new UsageError(`--expires: "${text}" is in the past (expected a time in the future)`)
  return moment
}

/**
 * Returns the milliseconds of an option's value such as `365d`.
 *
 * @throws UsageError for anything else, naming the `option`
 */
export function durationOption(text: string, option: string): number {
  const duration = parseDuration(text)
  const [, weeks] = /^(\d{1,3})w$/.exec(text) ?? []
  const example = weeks === undefined ? 'for example 365d' : `${Number(weeks) * 7}d`
  if (!duration) throw new UsageError(`${option}: "${text}" is not a duration (expected ${example})`)
  return duration
}

function parseMoment(text: string, now: number): number {
  const duration = parseDuration(text)
  if (!Number.isNaN(duration)) return now + duration
  const day = DATE.test(text) ? text : DATE_TIME.exec(text)?.[1]
  // Date.parse reads the 31st of February as the 2nd or 3rd of March.
  if (!day || !new Date(`${day}T00:00:00Z`).toJSON()?.startsWith(day)) return Number.NaN
  return Date.parse(text === day ? `${day}T00:00:00Z` : text)
}
