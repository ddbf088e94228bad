import { cp, readFile } from 'node:fs/promises'
import { join, relative } from 'node:path'
import t from 'tap'
import { writeGenerated } from '../../src/codegen/generate.ts'
import { addState, change, copyWith, createProgram, findErrors } from '../codegen/contract-copy.ts'
import { allEdits } from '../codegen/contract-edits.ts'
import { filesWithoutEngines } from './unrecorded-writes.ts'

const parcels = join(import.meta.dirname, '../codegen/fixtures')
const FIXTURES = { parcels: join(parcels, 'parcels'), writes: join(import.meta.dirname, 'fixtures/writes') }
const NAMES = Object.keys(FIXTURES)

// One program for everything, since to check it takes long: the changed contract, handlers of a small
// one, and writes.
const copy = await copyWith(t, allEdits())
await writeGenerated({
  spec: join(parcels, 'parcels.yaml'),
  server: join(copy, 'parcels/server'),
  client: join(copy, 'parcels/client/generated'),
})
for (const [name, folder] of Object.entries(FIXTURES)) await cp(folder, join(copy, name), { recursive: true })
const program = createProgram(copy, NAMES)
/** A name or a value of the contract, or its table. What has none of them means what it meant before. */
const OF_CONTRACT = /\/generated\/|\b(State\w*|Status\w*|statuses)\b|'(pending|success|failure|error)'/
const errors = findErrors(
  program,
  copy,
  ({ fileName, text }) =>
    !/\/(node_modules|src\/codegen)\//.test(fileName) && (isNew(fileName) || OF_CONTRACT.test(text)),
)

/** Returns whether a file was generated from a contract, or is one of the fixtures. */
function isNew(file: string): boolean {
  return /\/generated\/[^/]+$/.test(file) || NAMES.includes(relative(copy, file).split('/')[0] ?? '')
}

t.test('a change of the contract compiles with the edits that the README names', async (t) => {
  const isOfFixture = (error: string) => NAMES.some((name) => error.startsWith(`${name}/`))
  t.strictSame(
    errors.filter((error) => !isOfFixture(error)),
    [],
  )
  const schema = await readFile(join(copy, 'clients/typescript/src/generated/schema.ts'), 'utf8')
  t.match(schema, 'rehearsed_field?: number', "the client's types")
})

t.test('the compiler finds every mismatch between the contract and the code', async (t) => {
  const ofParcels = (name: string) => errors.filter((error) => error.startsWith(`parcels/${name}.ts: `))
  t.same(ofParcels('complete'), [], 'complete handlers compile, with headers, query parameters and null')
  for (const [name, expected] of [
    ['missing-handler', /TS1360 .*Property 'listParcels' is missing/],
    ['extra-handler', /TS2353 .*'weighDepot' does not exist in type 'Handlers</],
    ['undeclared-status', /TS2322 .*418/],
    ['error-status', /TS2322 .*404/],
    ['not-modified', /TS2322 .*304/],
    ['wrong-body', /TS2322 .*'"tube"' is not assignable/],
    ['incomplete-body', /TS2322 .*'note' is missing/],
    ['unknown-input', /TS2339 .*'depot' does not exist/],
    ['missing-header', /TS2322 .*"X-Total-Count"/],
    ['wrong-header', /TS2322 .*'string' is not assignable to type 'number'/],
    ['unknown-query', /TS2339 .*'page' does not exist/],
    ['optional-query', /TS18048 .*'to' is possibly 'undefined'/],
  ] as const) {
    t.match(ofParcels(name).join('\n'), expected, `${name} does not compile`)
  }
})

t.test('the compiler refuses writes without an actor who may', async (t) => {
  for (const [name, expected] of [
    ['no-actor', /TS2554 Expected 2-3 arguments/],
    ['no-actor-of-transaction', /TS2554 Expected 2 arguments/],
    ['connection-as-change', /TS2345 .*'Kysely<Tables>' is not assignable to parameter of type 'Change</],
    ['forged-change', /TS2345 .*'#lines' is missing|TS2345 .*missing .*#lines/],
    ['connection-as-transaction', /TS2345 .*'Kysely<Tables>' is not assignable to .* 'Transaction<Tables>'/],
    ['write-of-a-reader', /TS2551 .*'deleteFrom' does not exist on type 'Queries'/],
    ['form-outside', /TS2339 .*'post' does not exist on type 'Pages'/],
    ['page-with-audit', /TS2339 .*'audit' does not exist/],
    ['page-with-transact', /TS2339 .*'transact' does not exist/],
    ['page-with-engine', /TS2339 .*'engine' does not exist on type 'PageStore'/],
    ['page-with-failures', /TS2339 .*'failures' does not exist on type 'PageStore'/],
    ['write-of-a-reading-part', /TS2551 .*'deleteFrom' does not exist on type 'Queries'/],
    ['statement-of-a-reading-part', /TS2339 .*'write' does not exist on type 'Reading'/],
    ['user-without-proof', /TS2345 .*is not assignable to parameter of type 'Actor'/],
    ['user-with-two-proofs', /TS2322 .*is not assignable to type 'undefined'/],
    ['lock-by-person', /TS2345 .*'Change<SignedIn>' is not assignable to .* 'Change<Administrator>'/],
    ['group-by-person', /TS2345 .*'Change<SignedIn>' is not assignable to .* 'Change<Administrator>'/],
    ['rule-by-token', /TS2345 .*'Change<TokenHolder>' is not assignable to .* 'Change<Person>'/],
    ['user-by-server', /TS2345 .*'Transact<Server>' is not assignable to .* 'Transact<Administrator>'/],
    ['token-of-another', /TS2353 .*'userId' does not exist in type 'NewToken'/],
    ['rotation-by-token', /TS2345 .*'Change<TokenHolder>' is not assignable to .* 'Change<Person>'/],
    ['seconds-as-expiry', /TS2345 .*'Seconds' is not assignable to parameter of type 'Milliseconds'/],
    ['milliseconds-as-window', /TS2322 .*'Milliseconds' is not assignable to type 'Seconds'/],
    ['push-without-proof', /TS2741 .*'token' is missing .* required in type 'TokenHolder'/],
  ] as const) {
    const ofWrites = errors.filter((error) => error.startsWith(`writes/${name}.ts: `))
    t.match(ofWrites.join('\n'), expected, `${name} does not compile`)
  }
})

t.test('only engines use the drivers of databases, and a lock of backups', async (t) => {
  const using = filesWithoutEngines(program, copy).filter(({ text }) =>
    /from '(better-sqlite3|pg|pg-pool)'/.test(text),
  )
  t.same(
    using.map(({ fileName }) => relative(copy, fileName)),
    ['src/maintenance/backup/file-lock.ts'],
  )
})

t.test('the compiler finds a renamed operation, a state that counts as none, and a typo', async (t) => {
  await change(t, copy, {
    'openapi.yaml': [
      ['operationId: reportStatus', 'operationId: sendStatus'],
      ...addState('rehearsed_state', 'passed'),
    ],
    'src/api/answers.ts': [['const { status } = answer\n', 'const status = answer.stauts\n']],
  })
  // What depends on the name of an operation names it. That further states compile everywhere was
  // shown above. The command line of the client is not compared: it uses the name of the operation.
  const changed = ['src/api/answers.ts', 'src/domain/states.ts'].map((file) => join(copy, file))
  const found = findErrors(
    createProgram(copy, [], program),
    copy,
    ({ fileName, text }) =>
      !/\/(node_modules|typescript\/src\/cli)\//.test(fileName) &&
      (isNew(fileName) || changed.includes(fileName) || text.includes('reportStatus')),
  )

  const inAnswers = found.filter((error) => error.startsWith('src/api/answers.ts: '))
  t.match(inAnswers, [/TS\d+ .*'stauts' does not exist/], 'answers are typed where they are sent')
  const ofState = found.filter((error) => error.includes("'rehearsed_state'"))
  t.match(
    ofState,
    [/^src\/domain\/states\.ts: TS2322 .*"passed"/],
    'a new state counts as a combined state, and requires nothing else',
  )
  t.equal(ofState.length, 1)
  const known = [...inAnswers, ...ofState]
  const inSource = found.filter((error) => error.startsWith('src/') && !known.includes(error))
  t.same(
    inSource.filter((error) => !error.startsWith('src/api/handlers.ts: ')),
    [],
    'a renamed operation requires a change of its handler and nothing else',
  )
  t.match(inSource[0], /^src\/api\/handlers\.ts: TS2353 .*'reportStatus' does not exist in type 'Handlers</)
  t.same(
    found.filter(
      (error) => /^(generated|clients\/typescript\/src\/[^/]+)\b/.test(error) && !known.includes(error),
    ),
    [],
    'the client needs no other change; only its command line uses the name of the operation',
  )
  const client = await readFile(join(copy, 'clients/typescript/src/generated/operations.ts'), 'utf8')
  t.match(client, 'sendStatus(input: SendStatusInput', "the client's types")
})
