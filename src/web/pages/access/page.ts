import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { RuleViolation } from '../../../domain/rule-violation.ts'
import type { ReadableRepository } from '../../../store/access/access.ts'
import { createAdministeredFinder, settingsPath } from '../../parts/administration.ts'
import type { RepositoryRoute } from '../../parts/find-repository.ts'
import { problemOf } from '../../parts/form.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { MAY, permissionOf } from '../../parts/permission-forms.ts'
import { formOf } from '../../parts/query.ts'
import { actorOf, sessionOf, userOf } from '../../session/session-auth.ts'
import { accessView } from './view.ts'

/** Registers `/{owner}/{repo}/settings/access`: who has access to a repository, and why. */
export async function accessPage(app: FastifyInstance, context: PageContext): Promise<void> {
  const { store, sessionAuth, findUser } = context
  const findAdministered = createAdministeredFinder(app, context)

  const send = async (
    request: FastifyRequest,
    reply: FastifyReply,
    repository: ReadableRepository,
    error?: string,
  ): Promise<FastifyReply> => {
    const { owner, name } = repository
    const entries = await store.collaborators.list(owner, name)
    const form = request.form ?? new URLSearchParams()
    const content = accessView({ session: sessionOf(request), repository, entries, form, error })
    return sendPage(reply, { title: `Access · ${owner}/${name}` }, content)
  }

  app.get<RepositoryRoute>('/:owner/:repo/settings/access', async (request, reply) => {
    const repository = await findAdministered(request, reply)
    return repository ? send(request, reply, repository) : reply
  })

  app.post<RepositoryRoute>('/:owner/:repo/settings/access', async (request, reply) => {
    const repository = await findAdministered(request, reply)
    if (!repository) return reply
    const { owner, name } = repository
    const user = userOf(request)
    const form = formOf(request)
    const [permission, expected] = ['access', 'from'].map((field) => permissionOf(form.get(field)))
    let text = ''
    const error = await problemOf(async () => {
      const { id, name: found } = await findUser(user.id, (form.get('user') ?? '').trim())
      if (permission === undefined || expected === undefined)
        throw new RuleViolation('choose what is allowed')
      await store.collaborators.set(owner, name, id, permission, actorOf(request, user), expected)
      text = `${found} ${permission === null ? 'was removed from' : MAY[permission]} ${owner}/${name}${permission === null ? '' : ' now'}.`
    })
    if (error) return send(request, reply.code(422), repository, error)
    const { permission: own } = (await store.listing.find(user.id, owner, name)) ?? { permission: null }
    const path = own === 'admin' ? settingsPath(repository, '/access') : '/'
    return sessionAuth.redirect(request, reply, path, text)
  })
}
