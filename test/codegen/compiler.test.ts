import { cp, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import { writeGenerated } from '../../src/codegen/generate.ts'
import { addState, compile, copyWith } from './contract-copy.ts'

const fixtures = join(import.meta.dirname, 'fixtures')

t.test('the compiler finds every mismatch between the contract and the code', async (t) => {
  const copy = await copyWith(t, {
    'openapi.yaml': [
      ['operationId: reportStatus', 'operationId: sendStatus'],
      ...addState('rehearsed_state', 'passed'),
      [/(\n {4}StatusReport:\n[\s\S]*?properties:\n)/, '$1        rehearsed_field: { type: string }\n'],
    ],
    'src/api/answers.ts': [['const { status } = answer\n', 'const status = answer.stauts\n']],
  })
  await writeGenerated({
    spec: join(fixtures, 'parcels.yaml'),
    server: join(copy, 'parcels/server'),
    client: join(copy, 'parcels/client/generated'),
  })
  for (const more of ['parcels', 'writes'])
    await cp(join(fixtures, more), join(copy, more), { recursive: true })
  // One run for everything: the renamed operation and a typo in the copy, handlers of the small
  // contract, and writes. The contract's types reach all other files only through what those that import them
  // declare.
  const findings = compile(copy, ['parcels', 'writes'], (file) => {
    const isChecked = /\/generated\/[^/]+$|\/(parcels|writes)\//.test(file.fileName)
    return !file.fileName.includes('/node_modules/') && (isChecked || file.text.includes('/generated/'))
  })

  const inAnswers = findings.filter((finding) => finding.startsWith('src/api/answers.ts: '))
  t.match(inAnswers, [/TS\d+ .*'stauts' does not exist/], 'answers are typed where they are sent')
  const ofState = findings.filter((finding) => finding.includes("'rehearsed_state'"))
  t.match(
    ofState,
    [/^src\/domain\/states\.ts: TS2322 .*"passed"/],
    'a new state counts as a combined state, and requires nothing else',
  )
  t.equal(ofState.length, 1)
  const known = [...inAnswers, ...ofState]
  const inSource = findings.filter((finding) => finding.startsWith('src/') && !known.includes(finding))
  t.same(
    inSource.filter((finding) => !finding.startsWith('src/api/handlers.ts: ')),
    [],
    'a renamed operation requires a change of its handler and nothing else',
  )
  t.match(inSource[0], /^src\/api\/handlers\.ts: TS2353 .*'reportStatus' does not exist in type 'Handlers</)
  t.same(
    findings.filter(
      (finding) =>
        /^(generated|clients\/typescript\/src\/[^/]+)\b/.test(finding) &&
        !finding.includes('/src/cli/') &&
        !known.includes(finding),
    ),
    [],
    'the client needs no other change; only its command line uses the name of the operation',
  )
  const client = await readFile(join(copy, 'clients/typescript/src/generated/operations.ts'), 'utf8')
  t.match(client, 'sendStatus(input: SendStatusInput', "the client's types")
  t.match(
    await readFile(join(copy, 'clients/typescript/src/generated/schema.ts'), 'utf8'),
    'rehearsed_field?: string',
  )

  const ofParcels = (name: string) => findings.filter((finding) => finding.startsWith(`parcels/${name}.ts: `))
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
    ['rotation-of-another', /TS2345 .*'Change<SignedIn>' is not assignable to .* 'Change<Administrator>'/],
    ['seconds-as-expiry', /TS2345 .*'Seconds' is not assignable to parameter of type 'Milliseconds'/],
    ['milliseconds-as-window', /TS2322 .*'Milliseconds' is not assignable to type 'Seconds'/],
    ['push-without-proof', /TS2741 .*'token' is missing .* required in type 'TokenHolder'/],
  ] as const) {
    const ofWrites = findings.filter((finding) => finding.startsWith(`writes/${name}.ts: `))
    t.match(ofWrites.join('\n'), expected, `${name} does not compile`)
  }
})
