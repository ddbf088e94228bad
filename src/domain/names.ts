import { schemas } from '../../generated/schemas.ts'

const pattern = new RegExp(schemas.Name.pattern, 'u')
const excluded = new RegExp(schemas.Name.not.pattern, 'u')

/** Paths of the site, which are no names of owners or users. New paths go below one of these. */
const RESERVED = new Set([
  '.well-known',
  'api',
  'assets',
  'docs',
  'favicon.ico',
  'healthz',
  'login',
  'logout',
  'metrics',
  'openapi.json',
  'openapi.yaml',
  'readyz',
  'robots.txt',
  'settings',
  'static',
])

/** The rule of `isName` in words, for messages. */
export const NAME_RULE = `a name has 1 to ${schemas.Name.maxLength} ASCII letters, digits, "-", "_" and ".", is not "." or "..", and does not end in .git or .lock`
/** The rule of `isOwnerName` in words, for messages. */
export const OWNER_NAME_RULE = `${NAME_RULE}; paths of the site such as "docs" and "login" are reserved`

/** Returns the key by which names are compared, without regard to ASCII case. */
export function nameKey(name: string): string {
  return name.toLowerCase()
}

/** Orders names by their keys. */
export function compareNames(a: string, b: string): number {
  const [first, second] = [nameKey(a), nameKey(b)]
  if (first === second) return 0
  return first < second ? -1 : 1
}

/** Returns whether a name of an owner, user or repository is valid: the schema `Name`. */
export function isName(name: string): boolean {
  return name.length <= schemas.Name.maxLength && pattern.test(name) && !excluded.test(name)
}

/** Returns whether `name` is valid for an owner or a user. */
export function isOwnerName(name: string): boolean {
  return isName(name) && !isReserved(name)
}

/**
 * Returns whether two segments of a path may be those of a repository. The router also matches empty
 * segments, and reserved words in any case.
 */
export function isRepositoryPath(owner: string, name: string): boolean {
  return owner !== '' && name !== '' && !isReserved(owner)
}

/** Returns whether `name` is a path of the site. */
export function isReserved(name: string): boolean {
  return RESERVED.has(nameKey(name))
}
