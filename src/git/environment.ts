/**
 * Settings of every call. They override a repository's own settings, which its owner controls.
 *
 * - Hooks are programs of anyone who can write to the repository, so none is run. A push to a repository with branch rules
 *   runs the server's own `proc-receive`: see `openHooksFolder`.
 * - `core.alternateRefsCommand` and `core.fsmonitor` name programs. git would also list an alternate's refs, which only
 *   save the client some bytes, under the configuration of that other repository. The list stays empty.
 * - A push never updates a work tree, where filters and `core.fsmonitor` would run.
 * - Signatures are never verified, because that runs a program.
 * - `core.attributesFile` and `mailmap.file` could name any file that the server can read, or an endless one.
 * - Replacement refs are off, because they could make a blob appear under the id of a commit. `core.useReplaceRefs`
 *   overrides `GIT_NO_REPLACE_OBJECTS`.
 * - git syncs each file that it writes. By default it syncs only packs, so that a power cut leaves the loose objects and refs
 *   of a small push empty. git never syncs folders, see `syncFolders`.
 */
export const FIXED_SETTINGS = {
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  // git appends an argument and runs the command in a shell. With an empty command every push would fail.
  'core.alternateRefsCommand': 'exit 0;',
  'core.attributesFile': '/dev/null',
  'core.useReplaceRefs': 'false',
  'core.fsync': 'all',
  'core.fsyncMethod': 'fsync',
  'gpg.program': 'false',
  'gpg.openpgp.program': 'false',
  'gpg.x509.program': 'false',
  'gpg.ssh.program': 'false',
  'gpg.ssh.defaultKeyCommand': 'false',
  'log.mailmap': 'false',
  'log.showSignature': 'false',
  'receive.denyCurrentBranch': 'refuse',
} as const

/** Largest block of memory of a git process. git reads an object as a whole, except large files. */
const LARGEST_BLOCK = '256m'

/**
 * Returns the whole environment of a git process that works on one repository. Only `PATH` is inherited, to find git. So
 * neither the server's variables (`GIT_DIR`, `GIT_TRACE`, secrets) nor the configuration of the machine or the user can
 * change an answer.
 *
 * The configuration of an imported repository is checked before: see `gitDirOf`.
 *
 * - A folder of another owner is trusted for this call, because an administrator imported it (`safe.directory`, see
 *   git-config). Callers should still pass `--git-dir` if the command allows it: git before 2.38 does not read
 *   `safe.directory` from the environment.
 * - git fetches no missing objects of a partial clone. `GIT_NO_LAZY_FETCH` came with git 2.45 (and 2.39.4 and its sister
 *   releases); the empty list of allowed transports stops older versions.
 *
 * @param repositoryPath absolute path of the git directory, without symbolic links, because git compares it literally
 * @param config settings of this call; they override the repository's own
 */
export function gitEnvironment(
  repositoryPath: string,
  config: Readonly<Record<string, string>> = {},
): Record<string, string> {
  const settings = Object.entries({
    'safe.directory': repositoryPath,
    ...FIXED_SETTINGS,
    ...config,
  })
  return {
    PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin',
    // Not a folder, so git finds no files below it.
    HOME: '/dev/null',
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_GLOBAL: '/dev/null',
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], index) => [
        [`GIT_CONFIG_KEY_${index}`, key],
        [`GIT_CONFIG_VALUE_${index}`, value],
      ]),
    ),
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_NO_LAZY_FETCH: '1',
    GIT_ALLOC_LIMIT: LARGEST_BLOCK,
    GIT_ALLOW_PROTOCOL: '',
    GIT_TERMINAL_PROMPT: '0',
  }
}
