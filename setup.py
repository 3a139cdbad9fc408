"""What pyproject.toml cannot say beside it: the task folders of kernels/ are shipped as `evo.shipped`."""

from setuptools import find_packages, setup

setup(
    include_package_data=False,  # the data folders are no packages of their own
    packages=[*find_packages(include=["evo", "evo.*"]), "evo.shipped"],
    py_modules=["evo_kernels"],
    package_dir={"evo.shipped": "kernels"},
    package_data={
        "evo": ["py.typed"],
        "evo.cli.pages": ["static/*"],
        "evo.operators": ["rules/families/examples/*.cu"],
        "evo.shipped": ["**/*"],
        "evo.spec.chips": ["table.toml"],
        "evo.cli": ["examples.toml"],
        "evo.interop": ["templates/*"],
        "evo.audit.redteam": ["attacks/*/*.cu", "tasks/*/*.yaml", "tasks/*/*.py", "tasks/*/ladder/*.cu"],
    },
    exclude_package_data={"evo.shipped": ["*/champions/*", "**/__pycache__/*"]},
)
