import { patternMatcher } from './patterns.ts'
import { BRANCHES, flawOfRefName, TAGS } from './ref-names.ts'

/** Refs that a note names. */
const NAMED = 5

/** Returns a function that tests whether the pattern of a rule matches the full name of a ref. */
export function refMatcher(pattern: string): (ref: string) => boolean {
  return patternMatcher(isTagPattern(pattern) ? pattern : `${BRANCHES}${pattern}`)
}

/** Returns whether a pattern is about tags. All others are about branches. */
export function isTagPattern(pattern: string): boolean {
  return pattern.startsWith(TAGS)
}

/**
 * Returns why no branch or tag that git accepts can match a pattern, and what was probably meant;
 * null if one can. Rules of earlier versions may have such a pattern.
 */
export function flawOfPattern(pattern: string): string | null {
  const isTag = isTagPattern(pattern)
  const name = isTag ? pattern.slice(TAGS.length) : pattern
  const rest = pattern.startsWith(BRANCHES) ? pattern.slice(BRANCHES.length) : null
  if (rest !== null) return `leave out "${BRANCHES}"`
  if (name === '') return `name tags, or all of them: "${TAGS}*"`
  // Whatever an asterisk stands for, a name breaks a rule only if this one does.
  const flaw = flawOfRefName(name.replaceAll('*', 'x'))
  if (flaw === null) return null
  return `the name of a ${isTag ? 'tag' : 'branch'} may not ${flaw}${likelyMeaning(isTag ? TAGS : '', name)}`
}

/** Returns what was probably meant by the name in a pattern that no ref can match. */
function likelyMeaning(prefix: string, name: string): string {
  const corrected = name
    .trim()
    .replace(/\/\/+/g, '/')
    .replace(/^\/|[/.]$/g, '')
  const isLegal = corrected !== '' && flawOfRefName(corrected.replaceAll('*', 'x')) === null
  if (isLegal && /\/\s*$/.test(name))
    return `; did you mean "${prefix}${corrected}" or "${prefix}${corrected}/*"?`
  if (isLegal) return `; did you mean "${prefix}${corrected}"?`
  return /[?[]/.test(name) ? '; only * is special, so set a rule for each name' : ''
}

/**
 * Returns a note about a pattern that is legal, but perhaps not what was meant; null if there is
 * nothing to say.
 *
 * @param refs full names of all branches and tags; null if they are not known
 */
export function noteOnPattern(pattern: string, refs: readonly string[] | null): string | null {
  const notes: string[] = []
  const kind = isTagPattern(pattern) ? 'tag' : 'branch'
  if (refs !== null && !refs.some(refMatcher(pattern))) {
    const inOtherCase = refMatcher(pattern.toLowerCase())
    const similar = refs.find((ref) => inOtherCase(ref.toLowerCase()))
    notes.push(
      `no ${kind} matches yet${similar === undefined ? '' : `; upper and lower case differ: "${similar}" does not match`}`,
    )
  }
  const [, remote, rest = ''] = /^(origin|upstream|heads|remotes)\/(.+)/.exec(pattern) ?? []
  if (remote)
    notes.push(
      `it is about branches whose names begin with "${remote}/"; for others, leave it out: "${rest}"`,
    )
  if (/^tags\/./.test(pattern)) notes.push(`it is about branches; for tags, write "refs/${pattern}"`)
  if (/^refs(\/|$)/.test(pattern) && kind === 'branch')
    notes.push(`it is about branches; rules protect branches and, with "${TAGS}", tags, and no other refs`)
  return notes.length > 0 ? notes.join('; ') : null
}

/**
 * Returns a note about pushes under way that a rule does not check, because git had started before
 * the repository had rules; null if there are none.
 */
export function noteOnUnchecked(updates: readonly { ref: string; user: string }[]): string | null {
  if (updates.length === 0) return null
  const names = updates.slice(0, NAMED).map(({ ref, user }) => `"${ref}" by "${user}"`)
  const more = updates.length > NAMED ? `, and ${updates.length - NAMED} more` : ''
  return `a push under way is not checked, and its event will say so: ${names.join(', ')}${more}`
}
