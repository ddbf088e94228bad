import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { ReadableRepository } from '../../../store/access/access.ts'
import { problemOf } from '../../forms/form.ts'
import { MAY, readPermission } from '../../forms/permission-forms.ts'
import { createAdministeredFinder, settingsPath } from '../../parts/administration.ts'
import type { RepositoryRoute } from '../../parts/find-repository.ts'
import { sendPage } from '../../parts/layout.ts'
import type { PageContext } from '../../parts/page-context.ts'
import { formOf } from '../../parts/query.ts'
import { sessionOf, userOf } from '../../session/session-auth.ts'
import { accessView } from './access-view.ts'

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
    const entries = await store.collaborators.list(repository)
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
    let text = ''
    const error = await problemOf(async () => {
      const { user: found, permission, expected } = await readPermission(formOf(request), findUser, user.id)
      await sessionAuth.transact(request)((change) =>
        store.collaborators.set(change, repository, found.id, permission, expected),
      )
      const is = permission === null ? 'was removed from' : MAY[permission]
      text = `${found.name} ${is} ${owner}/${name}${permission === null ? '' : ' now'}.`
    })
    if (error) return send(request, reply.code(422), repository, error)
    const { permission: own } = (await store.listing.find(user.id, owner, name)) ?? { permission: null }
    const path = own === 'admin' ? settingsPath(repository, '/access') : '/'
    return sessionAuth.redirect(request, reply, path, text)
  })
}
