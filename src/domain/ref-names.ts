/** What the full names of branches and of tags begin with. */
export const BRANCHES = 'refs/heads/'
export const TAGS = 'refs/tags/'

/** Returns the full names of the refs that a client may mean by the name of a branch or tag. */
export function refsOfBranch(name: string): string[] {
  if (name.startsWith(TAGS)) return [name]
  // CI systems name a branch like this. A rule that is missed would not be noticed.
  return name.startsWith(BRANCHES) ? [name, `${BRANCHES}${name}`] : [`${BRANCHES}${name}`]
}

/** git's rules for names of refs (git-check-ref-format(1)): what breaks one, and what a name may not. */
const RULES: readonly [breaks: RegExp, rule: string][] = [
  [/[\0-\x20\x7f]/, 'contain spaces or control characters'],
  [/[~^:?[\\]/, 'contain any of ~ ^ : ? [ \\'],
  [/\.\./, 'contain ".."'],
  [/@\{/, 'contain "@{"'],
  [/\/\//, 'contain "//"'],
  [/^\//, 'begin with "/"'],
  [/\/$/, 'end with "/"'],
  [/(^|\/)\./, 'have a part that begins with "."'],
  [/\.$/, 'end with "."'],
  [/\.lock(\/|$)/, 'have a part that ends with ".lock"'],
]

/**
 * Returns what the name of a branch or tag may not do, of that which a name does; null if git
 * accepts it. `*` is not looked at.
 *
 * @param name without `refs/heads/` or `refs/tags/`
 */
export function flawOfRefName(name: string): string | null {
  return RULES.find(([breaks]) => breaks.test(name))?.[1] ?? null
}
