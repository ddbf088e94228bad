import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '../../../domain/refusal.ts'
import { insteadOf, Unavailable } from '../../../errors.ts'
import { chooseDefaultBranch, deleteRepository } from '../../../git/manage.ts'
import { isRefName } from '../../../git/refs/read-refs.ts'
import type { ReadableRepository } from '../../../store/access/access.ts'
import { VISIBILITIES } from '../../../store/tables.ts'
import { problemOf } from '../../forms/form.ts'
import { createAdministeredFinder, settingsPath } from '../../parts/administration.ts'
import { gitClient, type RepositoryRoute } from '../../parts/find-repository.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { formOf } from '../../parts/query.ts'
import { sessionOf, userOf } from '../../session/session-auth.ts'
import { type SettingsErrors, settingsView } from './settings-view.ts'

/** What a change has done: the page that comes next, and a sentence that it shows. */
interface Done {
  path: string
  text: string
}

/**
 * Registers `/{owner}/{repo}/settings`: visibility, default branch, name, owner and deletion of a
 * repository, for its admins.
 */
export async function settingsPage(app: FastifyInstance, context: PageContext): Promise<void> {
  const { store, sessionAuth, refs } = context
  const findAdministered = createAdministeredFinder(app, context)

  const send = async (
    request: FastifyRequest<RepositoryRoute>,
    reply: FastifyReply,
    repository: ReadableRepository,
    errors: SettingsErrors = {},
  ): Promise<FastifyReply> => {
    const { name, owner } = repository
    // Without its files, a repository can still be renamed and deleted.
    const list = await refs.list(repository, gitClient(request)).catch(insteadOf(Unavailable, null))
    const owners = (await store.groups.administeredBy(userOf(request).id)).map(({ name }) => name)
    const content = settingsView({
      session: sessionOf(request),
      repository,
      branches: list?.branches.map(({ name }) => name) ?? null,
      defaultBranch: list?.defaultBranch ?? null,
      owners,
      form: request.form ?? new URLSearchParams(),
      errors,
    })
    return sendPage(reply, { title: `Settings · ${owner}/${name}` }, content)
  }

  app.get<RepositoryRoute>('/:owner/:repo/settings', async (request, reply) => {
    const repository = await findAdministered(request, reply)
    return repository ? send(request, reply, repository) : reply
  })

  app.post<RepositoryRoute>('/:owner/:repo/settings', async (request, reply) => {
    const repository = await findAdministered(request, reply)
    if (!repository) return reply
    const change = formOf(request).get('change') ?? ''
    let done: Done | undefined
    const error = await problemOf(async () => {
      done = await apply(request, repository, change)
    })
    if (error || !done) return send(request, reply.code(422), repository, { [change]: error })
    return sessionAuth.redirect(request, reply, done.path, done.text)
  })

  /** Makes one change. @throws Refusal */
  async function apply(
    request: FastifyRequest,
    repository: ReadableRepository,
    change: string,
  ): Promise<Done | undefined> {
    const form = formOf(request)
    const expected = form.get('from') ?? undefined
    const transact = sessionAuth.transact(request)
    const { owner, name } = repository
    const fullName = `${owner}/${name}`
    const path = settingsPath(repository)

    switch (change) {
      case 'visibility': {
        const visibility = VISIBILITIES.find((value) => value === form.get('visibility'))
        if (!visibility) throw new Refusal('choose who can see it')
        await transact((change) => store.repositories.setVisibility(change, repository, visibility, expected))
        return { path, text: `${fullName} is ${visibility} now.` }
      }
      case 'branch': {
        const branch = form.get('branch') ?? ''
        if (!isRefName(branch)) throw new Refusal('choose a branch')
        await chooseDefaultBranch(transact, store, repository, branch, expected)
        return { path, text: `${branch} is the default branch of ${fullName} now.` }
      }
      case 'name': {
        const to = { owner: form.get('owner') ?? '', name: (form.get('name') ?? '').trim() }
        const { isReserved, ...now } = await transact((change) => store.moves.rename(change, repository, to))
        const newName = `${now.owner}/${now.name}`
        const path = settingsPath(now)
        if (newName === fullName) return { path, text: `${fullName} has this name already.` }
        return {
          path,
          text: `${fullName} is ${newName} now.${isReserved ? ' The name before is reserved.' : ''}`,
        }
      }
      case 'delete': {
        if (form.get('confirm') !== fullName) throw new Refusal(`type ${fullName}`)
        await deleteRepository(transact, store, repository)
        return { path: '/', text: `${fullName} was deleted.` }
      }
      default:
        return undefined
    }
  }
}
