import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative, resolve } from 'node:path'
import t, { type Test } from 'tap'
import ts from 'typescript'
import { writeGenerated } from '../../src/codegen/generate.ts'
import { pushCommits } from '../helpers/git.ts'

const root = resolve(import.meta.dirname, '../..')
const fixtures = join(import.meta.dirname, 'fixtures')

/** A copy of all that a change of the contract can reach, with `edit` made in `openapi.yaml` and generated. */
async function copyWith(t: Test, edit: (contract: string) => string): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'contract-'))
  t.teardown(() => rm(copy, { recursive: true, force: true }))
  for (const part of ['src', 'generated', 'clients/typescript/src', 'package.json', 'tsconfig.json']) {
    await cp(join(root, part), join(copy, part), { recursive: true })
  }
  await symlink(join(root, 'node_modules'), join(copy, 'node_modules'))
  const before = await readFile(join(root, 'openapi.yaml'), 'utf8')
  const after = edit(before)
  t.not(after, before, 'the edit fits')
  await writeFile(join(copy, 'openapi.yaml'), after)
  await writeGenerated({
    spec: join(copy, 'openapi.yaml'),
    server: join(copy, 'generated'),
    client: join(copy, 'clients/typescript/src/generated'),
  })
  return copy
}

/** What the compiler says, one line a finding: `file: TS1234 message`. */
function compile(folder: string, files: string[]): string[] {
  const { config } = ts.readConfigFile(join(folder, 'tsconfig.json'), ts.sys.readFile)
  const { options, fileNames } = ts.parseJsonConfigFileContent({ ...config, include: files }, ts.sys, folder)
  // The fixtures lie outside of the copy.
  const program = ts.createProgram(fileNames, { ...options, rootDir: '/' })
  return ts.getPreEmitDiagnostics(program).map(({ file, code, messageText }) => {
    const message = ts.flattenDiagnosticMessageText(messageText, ' ').replaceAll('\n', ' ')
    return `${file ? relative(folder, file.fileName) : ''}: TS${code} ${message}`
  })
}

t.test('a longer context: one edit, and everything follows', async (t) => {
  const copy = await copyWith(t, (contract) =>
    contract.replace(/(\n {4}Context:\n(?: {6}.*\n)*? {6}maxLength: )255/, '$1256'),
  )
  const { buildApp } = await import(join(copy, 'src/app.ts'))
  const { openStore } = await import(join(copy, 'src/store/store.ts'))
  const { openCommitLookup } = await import(join(copy, 'src/git/commit-lookup.ts'))
  const { createBareRepository } = await import(join(copy, 'src/git/repository.ts'))
  const { createToken, hashToken } = await import(join(copy, 'src/auth/token.ts'))
  const store = await openStore({ dataDir: join(copy, 'data') })
  const lookup = openCommitLookup()
  const app = await buildApp({ store, lookup, verifyReplies: true })
  t.teardown(async () => {
    await app.close()
    await lookup.close()
    await store.close()
  })
  const repository = await store.repositories.create(
    { owner: 'acme', name: 'rocket', visibility: 'public', objectFormat: 'sha1' },
    (path: string) => createBareRepository(path, 'sha1'),
  )
  const [sha] = pushCommits(repository.path, 1)
  const { id: userId } = await store.users.create('acme', { ownExisting: true })
  const token = createToken()
  await store.tokens.create({
    userId,
    name: '',
    prefix: '',
    hash: hashToken(token),
    scopes: ['repo'],
    expiresAt: null,
  })
  const report = async (length: number) => {
    const { statusCode, body } = await app.inject({
      method: 'POST',
      url: `/api/v1/repos/acme/rocket/statuses/${sha}`,
      headers: { authorization: `Bearer ${token}` },
      body: { state: 'success', context: 'x'.repeat(length) },
    })
    return [statusCode, JSON.parse(body)]
  }
  t.match(await report(256), [201, { context: 'x'.repeat(256) }], 'the validator of the request')
  t.same(await report(257), [422, { error: 'context is 257 characters long; at most 256 are allowed' }])
  const docs = (await app.inject('/openapi.json')).json()
  t.equal(docs.components.schemas.Context.maxLength, 256, 'the docs')
})

t.test('what the compiler says', async (t) => {
  const copy = await copyWith(t, (contract) =>
    contract
      .replace('operationId: reportStatus', 'operationId: sendStatus')
      // An optional field of each kind: whoever does not care for it need not change.
      .replace(/(\n {4}StatusReport:\n[\s\S]*?properties:\n)/, '$1        job:\n          type: string\n'),
  )
  // One run for all: the renamed operation in the copy, and the handlers of the fixtures against the real interface.
  const findings = compile(copy, ['src', 'generated', 'clients', relative(copy, fixtures)])

  const inSource = findings.filter((finding) => finding.startsWith('src/'))
  t.same(
    inSource.filter((finding) => !finding.startsWith('src/api/handlers.ts: ')),
    [],
    'a renamed operation is found at its handler and nowhere else',
  )
  t.match(inSource[0], /^src\/api\/handlers\.ts: TS2353 .*'reportStatus' does not exist in type 'Handlers</)
  t.same(
    findings.filter(
      (finding) =>
        /^(generated|clients\/typescript\/src\/[^/]+)\b/.test(finding) && !finding.includes('/src/cli/'),
    ),
    [],
    'the client follows; only its command line calls the operation by its name',
  )
  const client = await readFile(join(copy, 'clients/typescript/src/generated/operations.ts'), 'utf8')
  t.match(client, 'sendStatus(input: SendStatusInput', "the client's types follow")
  t.match(await readFile(join(copy, 'clients/typescript/src/generated/schema.ts'), 'utf8'), 'job?: string')

  const ofFixture = (name: string) => findings.filter((finding) => finding.includes(`fixtures/${name}.ts: `))
  t.same(ofFixture('complete'), [], 'what is complete compiles')
  for (const [name, expected] of [
    ['missing-handler', /TS1360 .*Property 'listStatuses' is missing/],
    ['extra-handler', /TS2353 .*'deleteStatus' does not exist in type 'Handlers</],
    ['undeclared-status', /TS2322 .*418/],
    ['wrong-body', /TS2322 .*'"green"' is not assignable/],
    ['incomplete-body', /TS2322 .*'statuses' is missing/],
    ['unknown-input', /TS2551 .*'sha1' does not exist/],
  ] as const) {
    t.match(ofFixture(name).join('\n'), expected, `${name} does not compile`)
  }
})
