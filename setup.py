"""Builds the replay op library against the installed TensorFlow: `pip install -e ".[all]"`."""

from concurrent import futures
import os
import pathlib
import runpy
import shutil
import sys

import setuptools
from setuptools.command import build_ext

CC = pathlib.Path("common/replay/cc")
REQUIRED = [
    "absl-py>=2.5",
    "dm-env>=1.6",
    "dm-sonnet==2.0.2",
    "dm-tree>=0.1.9",
    "isal>=1.7",
    "ml_collections>=1.1",
    "numpy>=2.0",
    "rich>=13",
    "tensorboard>=2.20",
    "tensorflow==2.21.0",
    "tensorflow-probability==0.25.0",
    "tf-keras==2.21.0",
]
"""Packages that the replay, losses and agents need: no simulator, no Gymnasium, no pandas."""
EXTRAS = {
    "atari": ["ale-py>=0.12.1", "gymnasium==1.4.0"],
    "control": [
        "dm_control==1.0.50",
        'labmaze>=1.0.6; python_version < "3.13"',  # for dm_control and mazes
        "mujoco==3.17.0",
        "pillow>=10",
    ],
    "figures": ["matplotlib>=3.9", "pandas>=2.2", "scipy>=1.13", "tabulate>=0.9"],
    "gym": ["gymnasium[mujoco]==1.4.0", "mujoco==3.17.0", "pillow>=10"],
    # The extras from here on are not in the lock.
    "box2d": ["gymnasium[box2d]==1.4.0"],
    "classic": ["gymnasium[classic-control]==1.4.0"],  # pygame, for pictures of CartPole
    "cuda": ["tensorflow[and-cuda]==2.21.0"],
    "maze": ["vizdoom==1.3.2"],
    "minatar": ["minatar==1.0.15"],  # GPL-3
    "peers": ["cpprb==11.0.0"],
    "ray": ["ray>=2.60"],  # 240 MB; for --role=ray
    "search": ["optuna>=5.0"],  # for `binaries.experiment --search=optuna`
    "test": [
        "pytest",
        "pytest-timeout",
        "pytest-xdist",
        "hypothesis",
        "ruff",
        "mypy",
        "pre-commit",
    ],
    "video": ["av==18.1.0"],  # its wheel contains x264, GPL
}
ALL = ("atari", "control", "figures", "gym")
"""The extras that `make setup` installs and the lock includes."""
AGENTS = runpy.run_path("reproductions/__init__.py")["AGENTS"]


class BuildOps(build_ext.build_ext):
    """The build with TensorFlow's own flags, whose version the name of the library includes."""

    def build_extension(self, ext):
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import tensorflow as tf

        ext.extra_compile_args = ["-O3", "-g0", "-Wall", "-Wextra"] + [
            flag.replace("-I", "-isystem", 1) for flag in tf.sysconfig.get_compile_flags()
        ]
        ext.extra_link_args = tf.sysconfig.get_link_flags()
        compile_one = self.compiler.compile

        def compile_all(sources, **options):
            with futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                objects = pool.map(lambda source: compile_one([source], **options), sources)
                return [name for names in objects for name in names]

        self.compiler.compile = compile_all
        super().build_extension(ext)

    def run(self):
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            sys.exit(
                f'error: no C++ compiler: "{compiler}" is not on the PATH, and the replay ops must '
                "be compiled; install g++ (Debian: apt-get install g++) or set CXX"
            )
        # Setting CXX alone would leave the C driver of setuptools in charge of C++ files.
        os.environ["CC"] = os.environ["CXX"] = compiler
        super().run()
        # A library for another TensorFlow has another name and stays; the loader would mention it.
        for library in CC.parent.glob("_ops.tf-*.so"):
            if library.name != pathlib.Path(self.get_ext_filename("_ops")).name:
                library.unlink()

    def get_ext_filename(self, fullname):
        from importlib import metadata

        path = pathlib.Path(*fullname.split("."))
        return str(path.with_name(f"{path.name}.tf-{metadata.version('tensorflow')}.so"))


setuptools.setup(
    name="replay-rl-reproductions",
    version="0.2.0",
    description="Ape-X, D4PG, Reactor, ReF-ER and AQL on TensorFlow 2 and Sonnet 2",
    license="Apache-2.0",
    python_requires=">=3.11,<3.14",
    # Programs find `results` next to their packages: the papers' numbers and the trained policies.
    packages=setuptools.find_namespace_packages(
        include=["common*", "reproductions*", "binaries*", "results.reported", "results.policies*"],
        exclude=["*.cc"],
    ),
    package_data={"": ["*.flags", "*.toml", "*.csv", "*.json", "*.npz"]},
    install_requires=REQUIRED,
    extras_require=EXTRAS | {"all": sorted({package for name in ALL for package in EXTRAS[name]})},
    entry_points={
        "console_scripts": ["replay-rl = binaries.__main__:main"],
        "replay_rl.agents": [" = ".join(agent) for agent in AGENTS.items()],
    },
    ext_modules=[
        setuptools.Extension(
            "common.replay._ops",
            # all_ops.cc, which takes longest, comes first. It includes the other files *ops.cc.
            sources=[
                str(CC / "all_ops.cc"),
                *sorted(str(path) for path in CC.glob("*.cc") if not path.match("*ops.cc")),
            ],
            depends=sorted(str(path) for path in (*CC.glob("*.h"), *CC.glob("*ops.cc"))),
            language="c++",
        )
    ],
    cmdclass={"build_ext": BuildOps},
)
