import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import tap from 'tap'
import type { Permission } from '../../src/domain/permissions.ts'
import { runCli } from '../helpers/cli.ts'
import { databases, temporaryFolder } from '../helpers/databases.ts'
import { listEvents } from '../helpers/events.ts'
import { git } from '../helpers/git.ts'
import { startInstance } from '../helpers/instance.ts'
import { createAccount, openPageClient } from '../helpers/page-client.ts'
import { provideDatabases } from '../helpers/prepare-databases.ts'
import { createRandom } from '../helpers/random.ts'
import { addToken } from '../helpers/records.ts'
import { startServer } from '../helpers/server.ts'
import { recordEvidence } from './parts/evidence.ts'
import { startLoad } from './parts/load.ts'

tap.setTimeout(1_200_000)
await provideDatabases(tap)

const PEOPLE = 300
const DAYS = 5
const TEAMS = ['payments', 'search', 'mobile', 'web', 'data', 'infra']
/** Their members are what a directory says. */
const DIRECTORY = ['payments', 'search']
/** Repositories that each team creates in a day. */
const CREATED = 2
/** Leave, and are locked, on each day. */
const LEAVERS = 3
const run = promisify(execFile)

interface Project {
  visibility: 'public' | 'private'
  granted: Map<string, Permission>
  sha: string
}

/**
 * A week of 300 people in six teams. The administrator creates users and groups, runs the nightly
 * job of the directory and locks those who leave. Everything else is done with the forms of pages,
 * beside CI that pushes and reports. In the end everybody has the access that the week gave them,
 * and each change is one event.
 */
for (const database of databases)
  tap.test(`a team's week by pages alone: ${database.name}`, async (t) => {
    const random = createRandom(Number(process.env.SOAK_SEED ?? 1))
    const some = <T>(values: Iterable<T>): T => random.pick([...values]) ?? assert.fail('there is none')
    const { options, store } = await startServer(t, { database })
    const server = await startInstance(t, options)
    const environment = {
      DATA_DIR: options.dataDir,
      ...(options.databaseUrl && { DATABASE_URL: options.databaseUrl }),
    }
    const administer = async (...args: string[]) => {
      const { code, stdout, stderr } = await runCli(args, environment)
      assert.equal(code, 0, `${args.join(' ')}: ${stderr}`)
      return stdout
    }

    const people = Array.from({ length: PEOPLE }, (_, index) => `person${index}`)
    for (const name of [...TEAMS.map((team) => `lead-${team}`), ...people])
      await createAccount({ store }, name)
    const groups = new Map(
      TEAMS.map((team) => [team, new Map<string, Permission>([[`lead-${team}`, 'admin']])]),
    )
    const projects = new Map<string, Project>()
    const gone: string[] = []
    for (const team of TEAMS) {
      await administer('group', 'create', team)
      await administer('group', 'member', team, `lead-${team}`, 'admin')
    }

    const clients = new Map<string, ReturnType<typeof openPageClient>>()
    const browserOf = async (name: string) => {
      const known = clients.get(name)
      if (known) return known
      const client = openPageClient(server.url)
      assert.equal((await client.signIn(name)).status, 303, name)
      clients.set(name, client)
      return client
    }
    const secrets = new Map<string, string>()
    const tokenOf = async (name: string) => {
      const { id } = await store.users.get(name)
      const secret = secrets.get(name) ?? (await addToken(store, id)).secret
      secrets.set(name, secret)
      return secret
    }

    const since = (await listEvents(store)).at(-1)?.id ?? 0
    const expected: string[] = []
    const serverErrors: string[] = []
    /** Sends a form, which must succeed, and notes the event that it should leave. */
    const act = async (
      user: string,
      page: string,
      action: string,
      form: Record<string, string>,
      event: string,
    ) => {
      const { status, body } = await (await browserOf(user)).submit(page, action, form)
      if (status >= 500) serverErrors.push(`${action}: ${status}`)
      assert.equal(
        status,
        303,
        `${user} ${action} ${JSON.stringify(form)}: ${status} ${/class="error"[^<]*<[^<]*/.exec(body)?.[0]}`,
      )
      expected.push(`${user} ${event}`)
    }
    const permissions = ['read', 'write', 'admin'] as const
    const present = () => people.filter((name) => !gone.includes(name))

    async function create(team: string, name: string): Promise<void> {
      const lead = `lead-${team}`
      const visibility = random.onceIn(2) ? 'public' : 'private'
      const fullName = `${team}/${name}`
      const form = { owner: team, name, visibility, 'object-format': 'sha1' }
      const page = '/settings/repositories/new'
      await act(lead, page, page, form, `repository.created ${fullName} null`)
      const work = temporaryFolder(t)
      git(work, 'init', '--quiet', '--initial-branch=main')
      git(work, 'commit', '--quiet', '--allow-empty', '--message', 'Begin')
      await push(work, fullName, await tokenOf(lead))
      projects.set(fullName, { visibility, granted: new Map(), sha: git(work, 'rev-parse', 'HEAD').trim() })
    }

    const push = async (work: string, fullName: string, token: string) => {
      const header = `http.extraHeader=Authorization: Basic ${Buffer.from(`x:${token}`).toString('base64')}`
      await run('git', ['-C', work, 'push', '--quiet', `${server.url}/${fullName}.git`, 'HEAD:main'], {
        env: {
          ...process.env,
          GIT_CONFIG_COUNT: '1',
          GIT_CONFIG_KEY_0: 'http.extraHeader',
          GIT_CONFIG_VALUE_0: header.slice('http.extraHeader='.length),
          GIT_TERMINAL_PROMPT: '0',
        },
      })
    }

    async function setMember(team: string, user: string, access: Permission | null): Promise<void> {
      const members = groups.get(team) ?? assert.fail()
      const from = members.get(user) ?? 'none'
      const to = access ?? 'none'
      if (from === to) return
      const form = { user, access: to, from }
      await act(
        `lead-${team}`,
        `/${team}`,
        `/settings/owners/${team}/members`,
        form,
        `group.member ${team} ${user}`,
      )
      if (access) members.set(user, access)
      else members.delete(user)
    }

    async function setAccess(fullName: string, user: string, access: Permission | null): Promise<void> {
      const [team = ''] = fullName.split('/')
      const { granted } = projects.get(fullName) ?? assert.fail()
      const from = granted.get(user) ?? 'none'
      if (from === (access ?? 'none')) return
      const page = `/${fullName}/settings/access`
      const form = { user, access: access ?? 'none', from }
      await act(`lead-${team}`, page, page, form, `repository.access ${fullName} ${user}`)
      if (access) granted.set(user, access)
      else granted.delete(user)
    }

    async function nightlyDirectory(team: string): Promise<void> {
      const members = groups.get(team) ?? assert.fail()
      for (let count = 0; count < 8; count++) members.set(some(present()), some(permissions))
      for (const user of [...members.keys()].slice(1, 3)) members.delete(user)
      for (const user of gone) members.delete(user)
      const file = join(temporaryFolder(t), 'directory.jsonl')
      writeFileSync(
        file,
        [...members].map(([user, access]) => `${JSON.stringify({ user, access })}\n`).join(''),
      )
      await administer('group', 'member', team, '--from', file, '--replace')
      const again = await runCli(['group', 'member', team, '--from', file, '--replace'], environment)
      t.match(again, { code: 0, stderr: /Changed 0 members/ })
    }

    /** Moves a repository to another name, of the same team or of another. */
    async function move(fullName: string, to: string, lead: string): Promise<void> {
      const [team = ''] = fullName.split('/')
      const [owner = '', name = ''] = to.split('/')
      const page = `/${fullName}/settings`
      const action = owner === team ? 'repository.renamed' : 'repository.transferred'
      await act(lead, page, page, { change: 'name', owner, name }, `${action} ${to} null`)
      projects.set(to, projects.get(fullName) ?? assert.fail())
      projects.delete(fullName)
    }

    const of = (team: string) => [...projects.keys()].filter((name) => name.startsWith(`${team}/`))
    const ciToken = new Map<string, string>()
    for (const team of TEAMS) ciToken.set(team, await tokenOf(`lead-${team}`))
    // Its own, so that a seed repeats the week.
    const chance = createRandom(1)
    const ci = startLoad(3, async () => {
      await setTimeout(50)
      const [fullName, project] = chance.pick([...projects]) ?? []
      if (fullName === undefined || !project) return 0
      const token = ciToken.get(fullName.split('/')[0] ?? '')
      const body = {
        state: chance.pick(['success', 'failure', 'pending']),
        context: `ci/${chance.below(20)}`,
      }
      const answer = await server.report(fullName, project.sha, body, token)
      // A repository may be moved or deleted meanwhile.
      if (![201, 404].includes(answer.status)) serverErrors.push(`report: ${answer.status}`)
      return answer.status
    })

    await setMember('mobile', 'lead-web', 'admin')
    for (let day = 1; day <= DAYS; day++) {
      t.comment(`day ${day}`)
      for (const team of TEAMS) {
        const lead = `lead-${team}`
        for (let index = 0; index < CREATED; index++) await create(team, `day${day}-${index}`)
        if (!DIRECTORY.includes(team))
          for (let count = 0; count < (day === 1 ? 40 : 6); count++)
            await setMember(team, some(present()), random.onceIn(4) ? null : some(permissions))
        for (let count = 0; count < 4; count++)
          await setAccess(some(of(team)), some(present()), random.onceIn(3) ? null : some(permissions))

        const ruled = some(of(team))
        const checks = `/${ruled}/settings/checks`
        const rule = { branch: `release/${day}`, required: 'ci/1\n', bypass: '', seen: 'null', change: 'set' }
        const before = (
          await store.rules.load((await store.repositories.get(team, ruled.split('/')[1] ?? '')).id)
        ).map(({ refPattern }) => refPattern)
        if (!before.includes(rule.branch)) await act(lead, checks, checks, rule, `rule.set ${ruled} null`)

        const flipped = some(of(team))
        const project = projects.get(flipped) ?? assert.fail()
        project.visibility = project.visibility === 'public' ? 'private' : 'public'
        const settings = `/${flipped}/settings`
        const form = { change: 'visibility', visibility: project.visibility }
        await act(lead, settings, settings, form, `repository.visibility ${flipped} null`)

        const renamed = some(of(team))
        await move(renamed, `${renamed}-renamed`, lead)
      }
      const moved = some(of('mobile'))
      // `lead-mobile` may not create there, `lead-web` may administer both.
      const refused = await (await browserOf('lead-mobile')).submit(
        `/${moved}/settings`,
        `/${moved}/settings`,
        { change: 'name', owner: 'web', name: `day${day}-moved` },
      )
      t.equal(refused.status, 403, 'the other team decides what it owns')
      await move(moved, `web/day${day}-moved`, 'lead-web')

      const deleted = some(of('infra'))
      const settings = `/${deleted}/settings`
      await act(
        'lead-infra',
        settings,
        settings,
        { change: 'delete', confirm: deleted },
        `repository.deleted ${deleted} null`,
      )
      projects.delete(deleted)

      for (let count = 0; count < LEAVERS; count++) {
        const leaver = some(present())
        await browserOf(leaver)
        await tokenOf(leaver)
        await administer('user', 'lock', leaver)
        gone.push(leaver)
      }
      for (const team of DIRECTORY) await nightlyDirectory(team)
    }
    await ci.stop()

    // What the week should have given, as the command line lists it.
    const wanted = [...projects].flatMap(([repository, { visibility, granted }]) => {
      const members = groups.get(repository.split('/')[0] ?? '') ?? assert.fail()
      const users = new Set([...members.keys(), ...granted.keys()])
      const rank = (permission: Permission | undefined) => (permission ? permissions.indexOf(permission) : -1)
      const rows = [...users].flatMap((user) => {
        const [held, given] = [members.get(user), granted.get(user)]
        const ofMember = rank(held) >= rank(given) ? [`${repository} ${user} ${held} member`] : []
        return [...ofMember, ...(given ? [`${repository} ${user} ${given} granted`] : [])]
      })
      return visibility === 'public' ? [...rows, `${repository} everyone read public`] : rows
    })
    const listed = JSON.parse(await administer('repo', 'access', '--json'))
    assert(Array.isArray(listed))
    const found = listed.map(
      ({ repository, user, access, reason }) => `${repository} ${user} ${access} ${reason}`,
    )
    t.same(found.sort(), wanted.sort(), 'everybody has the access that the week gave them')

    const events = (await listEvents(store)).filter(
      ({ id, actor, action }) =>
        id > since && actor === 'user' && !/^(sign-in|push|token|session)/.test(action),
    )
    const changes = events.map(
      ({ user, action, object, subject }) => `${user} ${action} ${object} ${subject}`,
    )
    t.same(changes.sort(), expected.sort(), 'each change is one event')
    const lacking = events.filter(
      ({ action, details }) =>
        /access|member|visibility|renamed|transferred|rule/.test(action) && !('from' in details),
    )
    t.same(lacking, [], 'with what was before')

    const [privateName = ''] = [...projects].find(([, { visibility }]) => visibility === 'private') ?? []
    const [target, { sha } = assert.fail()] = [...projects][0] ?? assert.fail()
    for (const leaver of gone) {
      const token = await tokenOf(leaver)
      const browser = await browserOf(leaver)
      t.equal((await browser.get('/settings/tokens')).status, 303, 'the session has ended')
      t.not((await openPageClient(server.url).signIn(leaver)).status, 303)
      t.equal((await server.report(target ?? '', sha, { state: 'success' }, token)).status, 401)
      await t.rejects(push(temporaryFolder(t), privateName, token))
      await administer('blocked', 'lift', '127.0.0.1').catch(() => '')
    }
    t.same(serverErrors, [])
    t.ok((ci.answers['201'] ?? 0) > 100, JSON.stringify(ci.answers))
    t.comment(`${expected.length} changes, ${found.length} of access, CI: ${JSON.stringify(ci.answers)}`)
    if (t.passing() && database === databases.at(-1))
      recordEvidence(
        'team',
        '300 people in six teams managed repositories, access and rules by pages alone for a week, beside CI',
        `${expected.length} changes: each was one event, and everybody had the access that they gave`,
      )
  })
