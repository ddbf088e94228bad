// clone, fetch and push with JGit: see git-clients.ts.
import java.io.File;
import java.util.List;
import org.eclipse.jgit.api.Git;
import org.eclipse.jgit.transport.PushResult;
import org.eclipse.jgit.transport.RefSpec;
import org.eclipse.jgit.transport.RemoteRefUpdate;
import org.eclipse.jgit.transport.UsernamePasswordCredentialsProvider;

public class JGitClient {
  public static void main(String[] args) throws Exception {
    String operation = args[0], url = args[1], first = args[3], second = args[4];
    File folder = new File(args[2]);
    String token = System.getenv("TOKEN");
    var auth = token == null || token.isEmpty() ? null : new UsernamePasswordCredentialsProvider("x", token);
    if (operation.equals("clone")) {
      if (!second.isEmpty()) System.exit(3);
      var clone = Git.cloneRepository().setURI(url).setGitDir(folder).setBare(true).setCredentialsProvider(auth);
      if (!first.isEmpty()) clone.setDepth(Integer.parseInt(first));
      clone.call().close();
      return;
    }
    try (Git git = Git.open(folder)) {
      if (operation.equals("fetch")) {
        git.fetch().setRemote(url).setRefSpecs(new RefSpec("+" + first + ":" + second)).setCredentialsProvider(auth).call();
        return;
      }
      var push = git.push().setRemote(url).setRefSpecs(new RefSpec(first)).setCredentialsProvider(auth);
      if (!second.isEmpty()) push.setPushOptions(List.of(second));
      for (PushResult result : push.call())
        for (RemoteRefUpdate update : result.getRemoteUpdates())
          if (update.getStatus() != RemoteRefUpdate.Status.OK) {
            System.err.println(update.getStatus() + " " + update.getMessage() + " " + result.getMessages());
            System.exit(1);
          }
    }
  }
}
