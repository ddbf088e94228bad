/**
 * Settings that win over a repository's own in every call: its owner may have written anything there.
 *
 * - Hooks are programs of whoever can write to the repository. None is run.
 * - `core.alternateRefsCommand` and `core.fsmonitor` name programs. The list of an alternate's refs, which only saves
 *   the client some bytes, would also be made under that other repository's configuration: it stays empty.
 * - A push never touches a work tree, where filters and `core.fsmonitor` would run.
 * - A signature is never checked, by whatever program.
 * - `core.attributesFile` and `mailmap.file` could name any file that the server can read, or one without an end.
 * - Replacement refs are off: with them a blob could answer under the id of a commit. `core.useReplaceRefs` would win
 *   over `GIT_NO_REPLACE_OBJECTS`.
 * - What git writes is synced to disk, file by file. By default git syncs packs alone, so that after a power cut the
 *   loose objects and refs of a small push are empty files. Folders are not covered, see `syncFolders`.
 */
export const FIXED_SETTINGS = {
  'core.hooksPath': '/dev/null',
  'core.fsmonitor': 'false',
  // git puts an argument behind it and runs it in a shell. An empty command would be an error in each push.
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

/**
 * The whole environment of a git child process that works on one repository. Nothing else is inherited, so neither
 * the server's own variables (`GIT_DIR`, `GIT_TRACE`, secrets) nor the configuration of the machine or of the user it
 * runs as can change an answer. Only `PATH` is taken over: it says which git is meant.
 *
 * The configuration of an imported repository is checked before: see `gitDirOf`.
 *
 * - A folder of another owner is trusted for this call alone, because it was the administrator who named it
 *   (`safe.directory`, see git-config). Callers should still name the repository with `--git-dir` where the
 *   command allows it: git before 2.38 does not read `safe.directory` from the environment.
 * - Nothing is fetched for a partial clone. `GIT_NO_LAZY_FETCH` came with git 2.45 (and 2.39.4 and its sisters);
 *   the empty list of allowed transports stops the older ones.
 *
 * @param repositoryPath absolute path of the git directory, without symbolic links, since git compares it literally
 * @param config settings of this call alone; they win over the repository's own
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
    // A file, so that nothing can lie below it.
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
    GIT_ALLOW_PROTOCOL: '',
    GIT_TERMINAL_PROMPT: '0',
  }
}
