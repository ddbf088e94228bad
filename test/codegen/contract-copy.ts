import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join, relative, resolve } from 'node:path'
import type { Test } from 'tap'
import ts from 'typescript'
import { writeGenerated } from '../../src/codegen/generate.ts'

const root = resolve(import.meta.dirname, '../..')

/** Manual edits by file: the text to find and its replacement. */
export type Edits = Readonly<
  Record<string, readonly (readonly [find: string | RegExp, replacement: string])[]>
>

/** Returns the edits of `openapi.yaml` that add a state. @param combined what it counts as */
export function addState(state: string, combined: string): Edits[string] {
  return [
    [/(\n {4}State:\n[\s\S]*?enum: \[[^\]]*)/, `$1, ${state}`],
    [/(\n {4}StateCounts:\n[\s\S]*?required: \[[^\]]*)/, `$1, ${state}`],
    [/(\n {4}StateCounts:\n[\s\S]*?properties:\n)/, `$1        ${state}: { type: integer, minimum: 0 }\n`],
    [/(x-counts-as: \{[^}]*?) \}/, `$1, ${state}: ${combined} }`],
  ]
}

/**
 * Copies everything that a change of the contract affects, and changes the copy.
 *
 * @returns the folder
 */
export async function copyWith(t: Test, edits: Edits): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'contract-'))
  t.teardown(() => rm(copy, { recursive: true, force: true }))
  for (const part of [
    'openapi.yaml',
    'src',
    'generated',
    'clients/typescript/README.md',
    'clients/typescript/src',
    'clients/shell/commit-status',
    'clients/recipes',
    'package.json',
    'tsconfig.json',
  ]) {
    const filter = (source: string) => basename(source) !== 'test'
    await cp(join(root, part), join(copy, part), { recursive: true, filter })
  }
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'))
  await change(t, copy, edits)
  return copy
}

/** Applies edits to a copy, and runs the generator. */
export async function change(t: Test, copy: string, edits: Edits): Promise<void> {
  for (const [file, pairs] of Object.entries(edits)) {
    let text = await readFile(join(copy, file), 'utf8')
    for (const [find, replacement] of pairs) {
      // Only the replacement of an expression may refer to groups.
      const edited =
        typeof find === 'string' ? text.replace(find, () => replacement) : text.replace(find, replacement)
      t.not(edited, text, `the edit applies to ${file}`)
      text = edited
    }
    await writeFile(join(copy, file), text)
  }
  await writeGenerated({
    spec: join(copy, 'openapi.yaml'),
    server: join(copy, 'generated'),
    client: join(copy, 'clients/typescript/src/generated'),
  })
}

/**
 * Returns a program of the server, the client and further folders of a copy. It takes what has not
 * changed from an older program.
 */
export function createProgram(folder: string, further: readonly string[], older?: ts.Program): ts.Program {
  const { config } = ts.readConfigFile(join(folder, 'tsconfig.json'), ts.sys.readFile)
  const include = ['src', 'generated', 'clients', ...further]
  const { options, fileNames } = ts.parseJsonConfigFileContent({ ...config, include }, ts.sys, folder)
  const host = ts.createCompilerHost(options)
  // As in tsc: other comments say nothing about types.
  host.jsDocParsingMode = ts.JSDocParsingMode.ParseForTypeErrors
  const { getSourceFile } = host
  host.getSourceFile = (name, ...rest) => {
    const known = older?.getSourceFile(name)
    return known?.text === host.readFile(name) ? known : getSourceFile(name, ...rest)
  }
  return ts.createProgram(fileNames, options, host, older)
}

/**
 * Checks all files of a program, or those for which `isChecked` returns true.
 *
 * @returns one line for each error: `file: TS1234 message`
 */
export function findErrors(
  program: ts.Program,
  folder: string,
  isChecked: (file: ts.SourceFile) => boolean = () => true,
): string[] {
  const errors = [
    ...program.getOptionsDiagnostics(),
    ...program.getGlobalDiagnostics(),
    ...program
      .getSourceFiles()
      .filter(isChecked)
      .flatMap((file) => [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)]),
  ]
  return errors.map(({ file, code, messageText }) => {
    const message = ts.flattenDiagnosticMessageText(messageText, ' ').replaceAll('\n', ' ')
    return `${file ? relative(folder, file.fileName) : ''}: TS${code} ${message}`
  })
}

/** Starts the copy's server on a free port. @returns its URL and its store */
export async function serve(t: Test, copy: string, budget = { limit: 1_000, window: 300 }) {
  const { buildApp } = await import(join(copy, 'src/app.ts'))
  const { openStore } = await import(join(copy, 'src/store/store.ts'))
  const { CommitLookup } = await import(join(copy, 'src/git/objects/commit-lookup.ts'))
  const { openSpool } = await import(join(copy, 'src/git-http/spool.ts'))
  const dataDir = await mkdtemp(join(copy, 'data-'))
  const store = await openStore({ dataDir })
  const lookup = new CommitLookup()
  const spool = await openSpool(dataDir, 0)
  const app = await buildApp({ store, lookup, spool, budget, verifyReplies: true, metricsToken: 'metrics' })
  t.teardown(async () => {
    await app.close()
    await lookup.close()
    await store.close()
  })
  const url: string = await app.listen({ host: '127.0.0.1', port: 0 })
  return { url, store }
}
