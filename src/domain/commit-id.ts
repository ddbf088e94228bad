import { ServiceError } from '../errors.ts'

/** The id by which git says that a ref does not exist: before it was created, or after it was deleted. */
export const NO_OBJECT = /^0+$/

/** The hash function of a repository's object ids. It never changes. */
export type ObjectFormat = (typeof OBJECT_FORMATS)[number]
export const OBJECT_FORMATS = ['sha1', 'sha256'] as const

/** Number of digits of an abbreviated id on pages, and the fewest that one may have. */
export const SHORT_ID = 7

/** Returns the number of hexadecimal digits of a full object id. */
export function commitIdLength(format: ObjectFormat): 40 | 64 {
  return format === 'sha1' ? 40 : 64
}

/** Returns whether `text` is a full object id in lower case, by default of any format. */
export function isFullId(text: string, format?: ObjectFormat): boolean {
  const { length } = text
  const isLength = format ? length === commitIdLength(format) : length === 40 || length === 64
  return isLength && /^[0-9a-f]+$/.test(text)
}

/** Returns whether `text` may abbreviate a commit id of a repository. */
export function isShortId(text: string, format: ObjectFormat): boolean {
  // 40 digits are a full id of the other format, never the beginning of a longer one.
  const isLength = text.length >= SHORT_ID && text.length < commitIdLength(format) && text.length !== 40
  return isLength && /^[0-9a-f]+$/i.test(text)
}

/** Abbreviates an id for people. */
export function shortId(id: string): string {
  return id.slice(0, SHORT_ID)
}

/**
 * Returns the id in lower case, as it is stored.
 *
 * @throws ServiceError `field_invalid` unless it is a full id in the repository's object format
 */
export function fullCommitId(format: ObjectFormat, sha: string): string {
  const length = commitIdLength(format)
  if (!/^[0-9a-f]+$/i.test(sha)) throw new ServiceError('field_invalid', 'sha must consist of hex digits')
  if (sha.length === length) return sha.toLowerCase()
  throw new ServiceError(
    'field_invalid',
    `sha is ${sha.length} hex digits long; the commit ids of this repository have ${length}`,
  )
}
