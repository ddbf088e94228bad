/** Events of a push or a garbage collection, except `proc-receive`, which is the server's. */
const HOOK_EVENTS = [
  ...['pre-receive', 'update', 'post-receive', 'post-update', 'reference-transaction', 'push-to-checkout'],
  ...['pre-auto-gc', 'post-index-change'],
]

/** Flaws of objects that git accepts in a push: its names for them (git-fsck(1)). */
const IGNORED_FLAWS = ['badTimezone', 'missingSpaceBeforeDate', 'zeroPaddedFilemode']

/** Filters of objects that a fetch may ask for, and those that an imported repository could allow. */
const FILTERS = {
  'blob:none': true,
  'blob:limit': true,
  tree: true,
  'object:type': true,
  'sparse:oid': false,
  combine: false,
}

/**
 * Settings of every call. They override a repository's own: those of an imported repository are its
 * owner's, but these are about what clients of the server cause, or what the server promises them.
 */
export const FIXED_SETTINGS: Readonly<Record<string, string>> = {
  // `openRepository` has checked its owner.
  'safe.directory': '*',

  // Hooks are written for other users and other commands than the server's. None runs, except the
  // server's own `proc-receive` for a push to a repository with branch rules: see `HOOKS`. Since
  // git 2.54 the configuration can name hooks too; since git 2.55 each event can be switched off.
  'core.hooksPath': '/dev/null',
  ...Object.fromEntries(HOOK_EVENTS.map((event) => [`hook.${event}.enabled`, 'false'])),
  // It watches a work tree, and the server touches none: a push never updates one.
  'core.fsmonitor': 'false',
  'receive.denyCurrentBranch': 'refuse',
  // A client decides whether a push is signed, and so whether the program would run. Nothing
  // depends on signatures.
  'gpg.program': 'false',
  'gpg.openpgp.program': 'false',
  'gpg.x509.program': 'false',
  'gpg.ssh.program': 'false',
  'gpg.ssh.defaultKeyCommand': 'false',
  'log.showSignature': 'false',
  // git would list the refs of an alternate, which may be private, and only save the client some
  // bytes. git appends an argument and runs the command in a shell. With an empty command every
  // push would fail.
  'core.alternateRefsCommand': 'exit 0;',

  // Pushed objects are always checked, since they are passed on to other users of the repository:
  // for example a tree that contains `.git`. Histories of earlier tools have what is ignored, which
  // harms nobody and could only be mended by new ids.
  'transfer.fsckObjects': 'true',
  'receive.fsckObjects': 'true',
  ...Object.fromEntries(IGNORED_FLAWS.map((flaw) => [`receive.fsck.${flaw}`, 'ignore'])),
  // It has no meaning here, but clients that send one would fail otherwise.
  'receive.advertisePushOptions': 'true',
  // With version 2 of the protocol git sends any object of a repository, whatever the settings say.
  'uploadpack.allowAnySHA1InWant': 'true',
  // Partial clones. `sparse:oid` makes git read any blob as a list of patterns, and `combine` repeats
  // filters without a limit.
  'uploadpack.allowFilter': 'true',
  'uploadpackfilter.allow': 'false',
  ...Object.fromEntries(
    Object.entries(FILTERS).map(([filter, isAllowed]) => [
      `uploadpackfilter.${filter}.allow`,
      String(isAllowed),
    ]),
  ),
  // A replacement ref could make a blob appear under the id of a commit. This overrides
  // `GIT_NO_REPLACE_OBJECTS`.
  'core.useReplaceRefs': 'false',
  // The log has the names in the commits, as their pages.
  'log.mailmap': 'false',

  // git syncs each file that it writes. By default it syncs only packs, so that a power cut leaves
  // the loose objects and refs of a small push empty. git never syncs folders, see `createFolderSync`.
  'core.fsync': 'all',
  'core.fsyncMethod': 'fsync',

  // The push waits for a garbage collection, which would be a process outside of the limits.
  'gc.autoDetach': 'false',
  'maintenance.autoDetach': 'false',
  // Larger files are neither compared with others nor read as a whole, so that the memory of a
  // process is bounded.
  'core.bigFileThreshold': '64m',
  'pack.windowMemory': '64m',
}

const FIXED_COUNT = Object.keys(FIXED_SETTINGS).length
const FIXED_VARIABLES: Readonly<Record<string, string>> = {
  // Not a folder, so git finds no files below it.
  HOME: '/dev/null',
  LC_ALL: 'C',
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  ...variablesOf(Object.entries(FIXED_SETTINGS)),
  GIT_NO_REPLACE_OBJECTS: '1',
  GIT_NO_LAZY_FETCH: '1',
  GIT_ALLOW_PROTOCOL: '',
  GIT_TERMINAL_PROMPT: '0',
  // Lists are written in blocks. Otherwise git writes each line of many alone.
  GIT_FLUSH: '0',
}

/** Largest block of memory of a git process. git reads an object as a whole, except large files. */
const LARGEST_BLOCK = '256m'

/**
 * Returns the whole environment of a git process. Only `PATH` is inherited, to find git. So neither
 * the server's variables (`GIT_DIR`, `GIT_TRACE`, secrets) nor the configuration of the machine or
 * the user can change an answer.
 *
 * - `startGit` still passes `--git-dir`: git before 2.38 does not read `safe.directory` from the
 *   environment, which it needs for a repository of another account.
 * - git fetches no missing objects of a partial clone. `GIT_NO_LAZY_FETCH` came with git 2.45 (and
 *   2.39.4 and its sister releases); the empty list of allowed transports stops older versions.
 *
 * @param config replaces fixed settings with the same keys: of several values git uses the last one
 */
export function gitEnvironment(
  config: Readonly<Record<string, string>> = {},
  largestBlock = LARGEST_BLOCK,
): Record<string, string> {
  const settings = Object.entries(config)
  return {
    ...FIXED_VARIABLES,
    ...variablesOf(settings, FIXED_COUNT),
    GIT_CONFIG_COUNT: String(FIXED_COUNT + settings.length),
    PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin',
    GIT_ALLOC_LIMIT: largestBlock,
  }
}

/** Returns the variables that give git settings. @param start number of those before */
function variablesOf(settings: readonly [key: string, value: string][], start = 0): Record<string, string> {
  const variables: Record<string, string> = {}
  for (const [index, [key, value]] of settings.entries()) {
    variables[`GIT_CONFIG_KEY_${start + index}`] = key
    variables[`GIT_CONFIG_VALUE_${start + index}`] = value
  }
  return variables
}
