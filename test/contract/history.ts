import assert from 'node:assert/strict'
import fc from 'fast-check'
import { commitsOf, type Permission, pathParams, type Token } from './fixture.ts'
import { type JsonObject, object } from './json.ts'
import { assertEcho, statusesOf } from './reports.ts'
import { type Check, combined, expectStatus, holds, type Run, reportAndList } from './run.ts'
import { afterReport, type RunReport } from './run-model.ts'
import { codePoint } from './values.ts'

type Caller = 'anonymous' | 'writer' | 'reader' | 'stranger'
type User = Exclude<Caller, 'anonymous'>
type Action =
  | { do: 'report'; as: Caller; commit: number; body: JsonObject; upperCase: boolean }
  | { do: 'read'; as: Caller; commit: number }
  | { do: 'revoke'; as: User }
  | { do: 'use an ended token'; commit: number }
  | { do: 'give access'; to: User; permission: Permission }
  | { do: 'show'; to: 'public' | 'private' }

const COMMITS = 2
/**
 * Few, so that they repeat, and chosen so that any order other than that of code points is
 * detected.
 */
const CONTEXTS = [
  'default',
  'a',
  'A',
  'b',
  'B',
  'a b',
  'e\u0301',
  'é',
  'z',
  '\uff5e',
  '\uffff',
  '😀',
  '\u{10ffff}',
]

const RUNS = ['one', 'two', 'three']
/** Milliseconds, far from each other and from the tolerance: a history takes seconds. */
const ELAPSED = [0, 60_000, 120_000]

/**
 * Compares random sequences of reports, reads, revocations and changes of access with a model of
 * the service.
 */
export const history: Check = {
  name: 'any sequence of reports, reads, revocations and access changes matches the model',
  async run(run) {
    const histories = fc.array(actions(run), { minLength: 1, maxLength: 30 })
    try {
      await holds(run, histories, async (steps) => {
        const model = await Model.begin(run)
        for (const step of steps) await model.take(step)
      })
    } finally {
      // Restores the fixture's access for the next check.
      await Model.begin(run)
    }
  },
}

function actions({ fixture }: Run): fc.Arbitrary<Action> {
  const as = fc.constantFrom<Caller>('anonymous', 'writer', 'reader', 'stranger')
  const user = fc.constantFrom<User>('writer', 'reader', 'stranger')
  const commit = fc.nat(COMMITS - 1)
  const body = fc.record(
    {
      state: fc.constantFrom('pending', 'success', 'failure', 'error'),
      context: fc.constantFrom(...CONTEXTS),
      description: fc.string({ unit: codePoint, maxLength: 5 }).filter((value) => !value.includes('\0')),
    },
    { requiredKeys: ['state'], noNullPrototype: true },
  )
  const run = fc.record(
    { run: fc.constantFrom(...RUNS), elapsed: fc.constantFrom(...ELAPSED) },
    { requiredKeys: ['run'], noNullPrototype: true },
  )
  const ofRuns = fc.tuple(body, fc.option(run)).map(([body, run]) => ({ ...body, ...run }))
  const report = fc.record({
    do: fc.constant('report' as const),
    as,
    commit,
    body: ofRuns,
    upperCase: fc.boolean(),
  })
  const asWriter = report.map((action) => ({ ...action, as: 'writer' as const }))
  const read = fc.record({ do: fc.constant('read' as const), as, commit })
  const requests = [
    { weight: 6, arbitrary: asWriter },
    { weight: 3, arbitrary: report },
    { weight: 5, arbitrary: read },
  ]
  if (!fixture.admin) return fc.oneof(...requests)
  const permission = fc.constantFrom<Permission>('read', 'write', null)
  return fc.oneof(
    ...requests,
    { weight: 1, arbitrary: fc.record({ do: fc.constant('revoke' as const), as: user }) },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('use an ended token' as const), commit }) },
    { weight: 2, arbitrary: fc.record({ do: fc.constant('give access' as const), to: user, permission }) },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('show' as const),
        to: fc.constantFrom('public' as const, 'private' as const),
      }),
    },
  )
}

/** A straightforward implementation of the service in memory. */
class Model {
  readonly #run: Run
  readonly #commits: string[]
  #visibility: 'public' | 'private' = 'private'
  readonly #access = new Map<User, Permission>()
  readonly #tokens = new Map<User, Token>()
  readonly #ended: Token[]
  /** The last answer to a report, by commit and context. */
  readonly #statuses: Map<string, JsonObject>[] = []
  /** What it says about its run, by commit and context. */
  readonly #runs = new Map<string, RunReport>()

  private constructor(run: Run) {
    const { closed, writer, reader, stranger, ended } = run.fixture
    this.#run = run
    this.#commits = commitsOf(closed).slice(0, COMMITS)
    this.#ended = [...ended]
    for (const [user, token] of Object.entries({ writer, reader, stranger })) {
      if (isUser(user)) this.#tokens.set(user, token)
    }
  }

  /**
   * Restores the fixture's initial access, and makes the existing statuses those of no run.
   */
  static async begin(run: Run): Promise<Model> {
    const model = new Model(run)
    await model.#show('private')
    for (const [user, permission] of [
      ['writer', 'write'],
      ['reader', 'read'],
      ['stranger', null],
    ] as const) {
      await model.#give(user, permission)
    }
    for (const sha of model.#commits) {
      const { list, report } = reportAndList(run)
      const token = run.fixture.writer.secret
      const params = pathParams(run.fixture.closed, sha)
      const statuses = statusesOf(await run.client.call(list, { params, token })).map(
        async ({ context = null, state = null }) => {
          const { json } = await run.client.call(report, { params, token, body: { context, state } })
          return [String(context), object(json, 'a status')] as const
        },
      )
      model.#statuses.push(new Map(await Promise.all(statuses)))
    }
    return model
  }

  async take(action: Action): Promise<void> {
    switch (action.do) {
      case 'report':
        return this.#report(action.as, action.commit, action.body, action.upperCase)
      case 'read':
        return this.#read(action.as, action.commit)
      case 'revoke':
        return this.#revoke(action.as)
      case 'use an ended token':
        return this.#useEnded(action.commit)
      case 'give access':
        return this.#give(action.to, action.permission)
      case 'show':
        return this.#show(action.to)
    }
  }

  async #report(as: Caller, commit: number, body: JsonObject, upperCase: boolean): Promise<void> {
    const { report } = reportAndList(this.#run)
    const sha = this.#sha(commit)
    const params = pathParams(this.#run.fixture.closed, upperCase ? sha.toUpperCase() : sha)
    const answer = await this.#run.client.call(report, { params, token: this.#secret(as), body })
    const isKept = this.#mayWrite(as) && !this.#takes(commit, body)
    const refused = this.#mayRead(as) && as !== 'anonymous' ? 403 : refusal(as)
    expectStatus(answer, isKept ? 409 : this.#mayWrite(as) ? 201 : refused, `${as} reports`)
    if (isKept || !this.#mayWrite(as)) return
    const status = object(answer.json, 'a status')
    assertEcho(report, body, status)
    assert.equal(status.sha, sha)
    const known = this.#statuses[commit] ?? new Map()
    const former = known.get(String(status.context))
    if (former) {
      assert.equal(status.id, former.id, 'a replacing report keeps the id')
      assert.equal(status.created_at, former.created_at, 'a replacing report keeps created_at')
      assert(String(status.updated_at) >= String(former.updated_at), 'updated_at never goes back')
    } else {
      assert.equal(status.updated_at, status.created_at)
      for (const other of this.#statuses.flatMap((map) => [...map.values()]))
        assert.notEqual(status.id, other.id)
    }
    known.set(String(status.context), status)
  }

  /** Returns whether a report is stored, and stores what it says about its run. */
  #takes(commit: number, { context = 'default', state, run, elapsed = 0 }: JsonObject): boolean {
    const key = `${commit} ${context}`
    const began = Date.now() - Number(elapsed)
    const report = { state: String(state), run: run === undefined ? undefined : String(run), began }
    const stored = this.#runs.get(key)
    const after = afterReport(stored, report)
    this.#runs.set(key, after)
    return after !== stored
  }

  async #read(as: Caller, commit: number): Promise<void> {
    const { list } = reportAndList(this.#run)
    const params = pathParams(this.#run.fixture.closed, this.#sha(commit))
    const answer = await this.#run.client.call(list, { params, token: this.#secret(as) })
    expectStatus(answer, this.#mayRead(as) ? 200 : refusal(as), `${as} reads`)
    if (answer.status !== 200) return
    const statuses = [...(this.#statuses[commit]?.values() ?? [])].sort(byCodePoints)
    assert.deepEqual(answer.json, { state: combined(statuses.map(({ state }) => String(state))), statuses })
  }

  async #revoke(as: User): Promise<void> {
    const { admin } = this.#run.fixture
    const token = this.#tokens.get(as)
    if (!admin || !token) return
    // Revokes a new token of the same user, since later checks use the fixture's tokens.
    const other = await admin.createToken(token.user)
    const params = pathParams(this.#run.fixture.open, this.#sha(0))
    const { list } = reportAndList(this.#run)
    const before = await this.#run.client.call(list, { params, token: other.secret })
    assert.notEqual(before.status, 401, 'a new token is valid')
    await admin.revoke(other)
    this.#ended.push(other)
    await this.#useEnded(0)
  }

  /** Sends the token that was revoked last, which must be rejected from its next request on. */
  async #useEnded(commit: number): Promise<void> {
    if (this.#run.failuresLeft <= 0) return
    for (const operation of this.#run.client.contract.operations) {
      const token = this.#ended.at(-1)
      if (!token) return
      this.#run.failuresLeft -= 1
      const params = pathParams(this.#run.fixture.closed, this.#sha(commit))
      const answer = await this.#run.client.call(operation, {
        params,
        token: token.secret,
        body: operation.body?.examples[0],
      })
      expectStatus(answer, 401, 'an ended token')
    }
  }

  async #give(to: User, permission: Permission): Promise<void> {
    const { admin, closed } = this.#run.fixture
    if (!admin || this.#access.get(to) === permission) return
    await admin.setAccess(closed, this.#tokens.get(to)?.user ?? '', permission)
    this.#access.set(to, permission)
  }

  async #show(to: 'public' | 'private'): Promise<void> {
    const { admin, closed } = this.#run.fixture
    await admin?.setVisibility(closed, to)
    this.#visibility = to
  }

  #mayRead(as: Caller): boolean {
    return this.#visibility === 'public' || (as !== 'anonymous' && this.#permission(as) !== null)
  }

  #mayWrite(as: Caller): boolean {
    return as !== 'anonymous' && this.#permission(as) === 'write'
  }

  #permission(user: User): Permission {
    if (this.#run.fixture.admin) return this.#access.get(user) ?? null
    return user === 'writer' ? 'write' : user === 'reader' ? 'read' : null
  }

  #secret(as: Caller): string | undefined {
    return as === 'anonymous' ? undefined : this.#tokens.get(as)?.secret
  }

  #sha(commit: number): string {
    return this.#commits[commit % this.#commits.length] ?? ''
  }
}

/**
 * Returns the status for a caller who cannot see the repository, or an anonymous caller who may not
 * write.
 */
function refusal(as: Caller): number {
  return as === 'anonymous' ? 401 : 404
}

function isUser(name: string): name is User {
  return name === 'writer' || name === 'reader' || name === 'stranger'
}

/** Compares UTF-8 bytes, whose order is that of code points. */
function byCodePoints(a: JsonObject, b: JsonObject): number {
  return Buffer.compare(Buffer.from(String(a.context)), Buffer.from(String(b.context)))
}
